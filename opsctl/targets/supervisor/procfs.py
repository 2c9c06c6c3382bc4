"""What /proc tells of processes (proc(5)); nothing here changes anything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PF_EXITING = 0x4
"""Of the flags in /proc/PID/stat (include/linux/sched.h)."""

SERVICE_MARK = "OPSCTL_SERVICE_DIR"
"""Variable in the environment of every process of a service: how orphans are found."""

REPLICA_MARK = "OPSCTL_REPLICA"
"""Variable in the environment of a replica and of all that it starts."""


@dataclass(frozen=True)
class Identity:
    """A process for good: a pid alone is reused, with the start time it is not."""

    pid: int
    start_ticks: int


def boot_id() -> str:
    """Names this boot of the machine, so that pids of an earlier one are not believed."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third on; None when the process is gone."""
    try:
        # Not Path(): a machine may have thousands of processes.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            text = stat.read()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].decode().split()


def identity(pid: int) -> Identity | None:
    """The identity of a running process; None when it is gone or a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return Identity(pid, int(fields[19]))


def is_ending(pid: int) -> bool:
    """Whether a process is on its way out: its memory and its connections go before it does."""
    fields = _stat_fields(pid)
    return fields is not None and bool(int(fields[6]) & PF_EXITING)


def is_alive(process: Identity) -> bool:
    """Whether that very process still runs."""
    return identity(process.pid) == process


def pids() -> Iterator[int]:
    """All process ids."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def sessions() -> dict[int, list[int]]:
    """Running processes by session: a replica leads one, its children stay in it."""
    found: dict[int, list[int]] = {}
    for pid in pids():
        fields = _stat_fields(pid)
        if fields is not None and fields[0] not in "ZX":
            found.setdefault(int(fields[3]), []).append(pid)
    return found


def _variables(raw: Iterable[bytes]) -> dict[str, str]:
    pairs = (item.decode(errors="replace").partition("=") for item in raw if item)
    return {name: value for name, _, value in pairs}


def remains(
    service_dir: Path, replica: str, session: int | None, since_ticks: int
) -> dict[Identity, bool]:
    """What runs of a replica, by its session or its mark, and whether it is in its session.

    What began before `since_ticks` is left out: its environment need not be read.
    """
    marks = {os.fsencode(f"{SERVICE_MARK}={service_dir}"), f"{REPLICA_MARK}={replica}".encode()}
    found = {}
    for pid in pids():
        fields = _stat_fields(pid)
        if fields is None or fields[0] in "ZX" or int(fields[19]) < since_ticks:
            continue
        is_member = int(fields[3]) == session
        if is_member or marks.issubset(_environment(pid)):
            found[Identity(pid, int(fields[19]))] = is_member
    return found


def marked(service_dir: Path) -> dict[int, dict[str, str]]:
    """Environments, by pid, of all running processes that carry the mark of this service."""
    return {pid: _variables(raw) for pid, raw in _marked(service_dir) if identity(pid)}


def leaders(found: Mapping[int, Mapping[str, str]]) -> dict[str, int]:
    """Of `marked` processes the first of each replica, by its name.

    It leads a session. A child that went into one of its own leads one too, but began later.
    """
    by_start = sorted(
        (known.start_ticks, pid)
        for pid, members in sessions().items()
        if pid in found and pid in members and (known := identity(pid))
    )
    named: dict[str, int] = {}
    for _, pid in by_start:
        if name := found[pid].get(REPLICA_MARK):
            named.setdefault(name, pid)
    return named


def _marked(service_dir: Path) -> Iterator[tuple[int, list[bytes]]]:
    mark = os.fsencode(f"{SERVICE_MARK}={service_dir}")
    for pid in pids():
        raw = _environment(pid)
        if mark in raw:
            yield pid, raw


def _environment(pid: int) -> list[bytes]:
    """Variables that a process was started with; nothing when it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:
            return environ.read().split(b"\0")
    except OSError:
        return []


def process_name(pid: int) -> str:
    """Short name of a process, `?` when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def rss_bytes(process_ids: Iterable[int]) -> int:
    """Resident memory of several processes together; pages that they share count for each."""
    total = 0
    for pid in process_ids:
        with contextlib.suppress(OSError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return total
