"""What a replica leaves behind: children, also those that went into a session of their own."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.watched import kill_now

POLL_S = 0.02
LIMIT_S = 5.0
"""How long the end of processes that were sent SIGKILL is waited for."""

EMPTY_LOOKS = 2
"""Looks in a row that find nothing: a process shows no environment while it executes another
program (execve(2)), and a look takes its time."""


@dataclass(frozen=True)
class Ended:
    """What was found: pids outside the replica's session, and pids that would not end."""

    detached: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """For people; empty when there is nothing to tell."""
        parts = []
        if self.detached:
            count = len(self.detached)
            what = "a process" if count == 1 else f"{count} processes"
            parts.append(f"{what} that it had left in the background ended with it")
        if self.stuck:
            parts.append(f"pid {', '.join(map(str, self.stuck))} of it can't be ended")
        return "; ".join(parts)


@dataclass(frozen=True)
class Remains:
    """The processes of one replica: known by its session and by its mark."""

    replica: str
    service_dir: Path

    async def end(self, session: int | None, since_ticks: int = 0) -> Ended:
        """SIGKILL all that is left, until nothing is.

        `session` is that of the replica's first process, which has ended; None when it had none.
        `since_ticks` is when that began: nothing older is looked at.
        """
        detached: set[int] = set()
        empty = 0
        limit = time.monotonic() + LIMIT_S
        while empty < EMPTY_LOOKS:
            # In a thread, as a machine may have thousands of processes.
            found = await asyncio.to_thread(
                procfs.remains, self.service_dir, self.replica, session, since_ticks
            )
            for process, is_member in found.items():
                kill_now(process)
                if not is_member:
                    detached.add(process.pid)
            empty = 0 if found else empty + 1
            if found and time.monotonic() > limit:
                return Ended(tuple(sorted(detached)), tuple(sorted(p.pid for p in found)))
            await asyncio.sleep(POLL_S)
        return Ended(tuple(sorted(detached)))
