"""HAProxy's runtime API on its admin socket (management guide, section 9.3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME

ANSWER_TIMEOUT_S = 2.0
BACKEND = "svc"

_ADMIN_MAINT = 0x01
"""Forced maintenance in `srv_admin_state` of `show servers state`."""


@dataclass(frozen=True)
class ServerRow:
    """A server as HAProxy has it now."""

    name: str
    port: int
    health_port: int
    weight: int
    maint: bool


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


async def servers() -> dict[str, ServerRow]:
    """The servers that HAProxy has, by name."""
    answer = await command([f"show servers state {BACKEND}"])
    lines = [line for line in answer.splitlines() if line]
    header = next(line for line in lines if line.startswith("#")).split()[1:]
    found = {}
    for line in lines:
        if line.startswith("#") or " " not in line:
            continue
        row = dict(zip(header, line.split(), strict=False))
        found[row["srv_name"]] = ServerRow(
            name=row["srv_name"],
            port=int(row["srv_port"]),
            health_port=int(row["srv_check_port"]),
            weight=int(row["srv_uweight"]),
            maint=bool(int(row["srv_admin_state"]) & _ADMIN_MAINT),
        )
    return found


@dataclass(frozen=True)
class Statistics:
    """Counters, and the process that counted them: at a reload another one takes the socket."""

    pid: int
    rows: list[dict[str, str]]
    """Of `show stat`, by column name (management guide, section 9.1)."""


async def statistics() -> Statistics:
    """Read all counters. Raises TargetUnreachable."""
    answer = await command(["show info", "show stat"])
    lines = [line for line in answer.splitlines() if line]
    pid = next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))
    start = next(i for i, line in enumerate(lines) if line.startswith("# pxname,"))
    header = lines[start].removeprefix("# ").split(",")
    rows = [dict(zip(header, line.split(","), strict=False)) for line in lines[start + 1 :]]
    return Statistics(pid, rows)
