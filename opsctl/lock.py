"""One writer a service: flock, which the kernel frees at once when its holder dies.

A holder that is alive but frozen keeps its flock. It is told by its heartbeat: when that does not
move for STALE_AFTER_S of the taker's own monotonic clock, the taker puts a new lock file in the old
one's place. The frozen one finds out when it wakes: its journal lines are void, the target refuses
its epoch, and its own heartbeat sees that the lock file is another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

from opsctl.clock import Clock
from opsctl.errors import LockHeld, Superseded
from opsctl.storage import Holder

STALE_AFTER_S = 10.0
"""A heartbeat that stands still this long belongs to a frozen holder (it beats each second)."""

POLL_S = 0.1
"""How often a waiter looks."""


class Lock:
    """A held lock. `beat` and `check` are called from time to time by the holder."""

    def __init__(self, path: Path, descriptor: int, holder: Holder) -> None:
        self.path = path
        self._descriptor = descriptor
        self._holder = replace(holder, start_ticks=_start_ticks(holder.pid))
        self.beat()

    def beat(self) -> None:
        """Show that the holder is alive."""
        self._holder = replace(self._holder, beat=self._holder.beat + 1)
        text = json.dumps(self._holder.to_dict()).encode().ljust(512)
        with contextlib.suppress(OSError):  # a full disk must not stop the holder
            os.pwrite(self._descriptor, text, 0)

    def check(self) -> None:
        """Raise Superseded when another has put its own lock file in place."""
        if not _is_current(self.path, self._descriptor):
            raise Superseded(
                "another opsctl took the lock over",
                why="this one stood still for too long",
                next_step="This command changed nothing since. See: opsctl status",
            )

    def free(self) -> None:
        """Give the lock back."""
        if _is_current(self.path, self._descriptor):
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def acquire(path: Path, holder: Holder, *, wait_s: float, clock: Clock) -> Lock:
    """Take the lock, wait for it, or take it over from a frozen holder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = clock.monotonic() + wait_s
    seen: tuple[int, int] | None = None
    seen_at = clock.monotonic()
    while True:
        descriptor = _try_lock(path)
        if descriptor is not None:
            return Lock(path, descriptor, holder)
        now = clock.monotonic()
        current = read_holder(path)
        mark = (current.pid, current.beat) if current else None
        if mark != seen:
            seen, seen_at = mark, now
        elif now - seen_at >= STALE_AFTER_S:
            return Lock(path, _take_over(path), holder)
        if now >= deadline:
            raise held_by(current)
        clock.sleep(min(POLL_S, max(0.0, deadline - now)))


def read_holder(path: Path) -> Holder | None:
    """Who wrote the lock file last; None when nobody holds the lock."""
    try:
        text = path.read_text(errors="replace").strip("\0 \n")
        return Holder(**json.loads(text)) if text else None
    except (OSError, ValueError, TypeError):
        return None


def current_holder(path: Path) -> Holder | None:
    """Who holds the lock now: a living process that wrote the file and did not give it back.

    Told without taking the lock, even for a moment: a look must not make a deploy fail.
    """
    holder = read_holder(path)
    if holder and holder.start_ticks and _start_ticks(holder.pid) == holder.start_ticks:
        return holder
    return None


def _start_ticks(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat (proc(5)); 0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def break_lock(path: Path) -> None:
    """Put a free lock file in place of one that a frozen holder keeps."""
    os.close(_take_over(path))


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if _is_current(path, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _take_over(path: Path) -> int:
    """A new lock file, locked, in the old one's place. Two takers end with one: rename decides."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(fresh, path)
    return descriptor


def _is_current(path: Path, descriptor: int) -> bool:
    try:
        there, mine = os.stat(path), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def held_by(holder: Holder | None) -> LockHeld:
    """The error of one who did not get the lock."""
    who = f"{holder.where} ({holder.actor}, {holder.command})" if holder else "another opsctl"
    return LockHeld(
        f"another opsctl works on this service: {who}",
        next_step="Wait for it with --lock-wait 600, or stop it with: opsctl abort",
    )
