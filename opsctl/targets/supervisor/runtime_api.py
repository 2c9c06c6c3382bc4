"""HAProxy's runtime API on its admin socket (management guide, section 9.3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME, SLOT_MAP_NAME

ANSWER_TIMEOUT_S = 2.0
BACKEND = "svc"
OLD_MAP_NAME = "health.map"
"""Of an older opsctl: health path by replica."""

_ADMIN_MAINT = 0x01
"""Forced maintenance in `srv_admin_state` of `show servers state`."""


@dataclass(frozen=True)
class SlotRow:
    """A slot as HAProxy has it now. `replica` is NOBODY for a free one."""

    slot: str
    replica: str
    health_path: str
    host: str
    port: int
    health_port: int
    weight: int
    maint: bool

    @property
    def resting(self) -> bool:
        """Whether it gets no traffic, not even that of sticky clients."""
        return self.maint and self.weight == 0

    def as_server(self) -> Server:
        """The replica as the file names it."""
        return Server(
            name=self.replica,
            port=self.port,
            health_port=self.health_port,
            health_path=self.health_path,
            host=self.host,
            weight=self.weight,
            maint=self.maint,
        )


async def command(lines: Sequence[str]) -> str:
    """Send commands in one go; they are carried out in order, with nothing between them.

    The working directory must hold the socket (its path may be longer than the system allows).
    Raises TargetUnreachable when HAProxy does not answer.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await _exchange("; ".join(lines) + "\n")
    except (OSError, TimeoutError) as error:
        raise TargetUnreachable("HAProxy's runtime API does not answer", why=str(error)) from error


async def _exchange(text: str) -> str:
    reader, writer = await asyncio.open_unix_connection(ADMIN_SOCKET_NAME)
    try:
        writer.write(text.encode())
        return (await reader.read(-1)).decode()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def slots() -> dict[str, SlotRow]:
    """The slots that HAProxy has, by name.

    One that was started by an older opsctl has servers that are named after their replicas.
    """
    shown = [f"show servers state {BACKEND}", f"show map {SLOT_MAP_NAME}"]
    lines = await _shown([*shown, f"show map {OLD_MAP_NAME}"])
    header = next(line for line in lines if line.startswith("#")).split()[1:]
    entries = dict(_map_entries(lines))
    found = {}
    for line in lines:
        if not line[0].isdigit() or " " not in line or line.startswith("0x"):
            continue
        row = dict(zip(header, line.split(), strict=False))
        slot = row["srv_name"]
        replica, health_path = entries.get(slot, (slot, ""))
        found[slot] = SlotRow(
            slot=slot,
            replica=replica,
            health_path=health_path,
            host=row["srv_addr"],
            port=int(row["srv_port"]),
            health_port=int(row["srv_check_port"]),
            weight=int(row["srv_uweight"]),
            maint=bool(int(row["srv_admin_state"]) & _ADMIN_MAINT),
        )
    return found


async def _shown(commands: Sequence[str]) -> list[str]:
    """Lines that HAProxy shows; one that ends meanwhile breaks off, and half is worse than none.

    Each command's part ends with an empty line (management guide, section 9.3).
    """
    answer = await command(commands)
    if answer.count("\n\n") < len(commands):
        raise TargetUnreachable("HAProxy's runtime API broke off its answer")
    return [line for line in answer.splitlines() if line]


def _map_entries(lines: Iterable[str]) -> Iterable[tuple[str, tuple[str, str]]]:
    """Replica and health path by slot, from `show map`: lines of id, slot, replica:path.

    In the old map it was the path alone.
    """
    for line in lines:
        if line.startswith("0x"):
            _, slot, value = line.split(" ", 2)
            replica, _, path = value.partition(":")
            yield slot, (slot, value) if value.startswith("/") else (replica, path)


@dataclass(frozen=True)
class Statistics:
    """Counters, and the process that counted them: at a reload another one takes the socket."""

    pid: int
    started: str
    """When that process did, in seconds: in a container the next one may have its pid."""
    rows: list[dict[str, str]]
    """Of `show stat`, by column name (management guide, section 9.1)."""
    replicas: Mapping[str, str]
    """Replica by slot, as it was when the counters were read."""

    @property
    def process(self) -> str:
        """Names the process."""
        return f"{self.pid}@{self.started}"

    @property
    def busy(self) -> set[str]:
        """Slots with requests that are being answered or wait."""
        rows = (row for row in self.rows if row["pxname"] == BACKEND)
        return {row["svname"] for row in rows if int(row["scur"] or 0) + int(row["qcur"] or 0) > 0}


async def statistics() -> Statistics:
    """Read all counters. Raises TargetUnreachable."""
    lines = await _shown(["show info", "show stat", f"show map {SLOT_MAP_NAME}"])
    info = dict(
        line.split(": ", 1) for line in lines if line.startswith(("Pid: ", "Start_time_sec: "))
    )
    start = next(i for i, line in enumerate(lines) if line.startswith("# pxname,"))
    header = lines[start].removeprefix("# ").split(",")
    rest = [line for line in lines[start + 1 :] if "," in line and not line.startswith("0x")]
    rows = [dict(zip(header, line.split(","), strict=False)) for line in rest]
    replicas = {slot: replica for slot, (replica, _) in _map_entries(lines)}
    return Statistics(int(info["Pid"]), info["Start_time_sec"], rows, replicas)
