"""What /proc tells of processes (proc(5)); nothing here changes anything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SERVICE_MARK = "OPSCTL_SERVICE_DIR"
"""Variable in the environment of every process of a service: how orphans are found."""


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
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def identity(pid: int) -> Identity | None:
    """The identity of a running process; None when it is gone or a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return Identity(pid, int(fields[19]))


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


def environment(pid: int) -> dict[str, str]:
    """Environment that a process was started with; empty when it can't be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0") if item)
    return {name: value for name, _, value in pairs}


def marked(service_dir: Path) -> dict[int, dict[str, str]]:
    """Environments, by pid, of all running processes that carry the mark of this service."""
    found = {}
    mark = f"{SERVICE_MARK}={service_dir}".encode()
    for pid in pids():
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark in raw.split(b"\0") and identity(pid):
            found[pid] = environment(pid)
    return found


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
