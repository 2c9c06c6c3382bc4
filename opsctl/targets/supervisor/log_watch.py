"""The watch over logs: each stays within its size, and a replica that floods its own is ended."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from opsctl.targets.supervisor import rotation
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.rotation import MIB, LogLimit

LOOK_S = 0.25
"""How often, while a log grows at the rate of a flood: little piles up between two looks."""

QUIET_LOOK_S = 1.0
"""How often otherwise: a look costs little, but it is for ever."""

ALL_LOGS_S = 5.0
"""How often the logs are looked at whose writers are no replicas that run."""

REPLICA_LOG = re.compile(r"(r[1-9][0-9]*)-b?[0-9]+\.log(\.[0-9]+)?")

RETRY_S = 5.0
"""Pause after a rotation that failed."""

FLOOD_MIB_S = 32
"""A log that grows faster than that is read by nobody: it is 110 GiB an hour."""

FLOOD_LOOKS = 8
FLOOD_LOGS = 5
"""A flood has written the log full that many times: a dump at the start is none."""


@dataclass
class Growth:
    """How one log grows, look by look. Times in seconds, monotonic."""

    size: int
    looked_at: float
    looks: int = 0
    """Looks in a row at which it had grown at the rate of a flood."""
    written: int = 0
    began: float = 0.0
    """Since when, and how many bytes, at that rate."""

    def look(self, size: int, now: float) -> None:
        """Take in the size that it has now."""
        new = size - self.size if size >= self.size else size
        if new < FLOOD_MIB_S * MIB * (now - self.looked_at):
            self.looks = self.written = 0
            self.began = now
        else:
            self.looks += 1
            self.written += new
        self.size, self.looked_at = size, now

    def restart(self, size: int, now: float) -> None:
        """Go on from another size, as the log was cut."""
        self.size, self.looked_at = size, now

    def flood(self, limit: LogLimit) -> str:
        """A sentence when it is flooded; else empty."""
        if self.looks < FLOOD_LOOKS or self.written < FLOOD_LOGS * limit.max_bytes:
            return ""
        took_s = self.looked_at - self.began
        return f"killed: it flooded its log, {self.written // MIB} MiB within {took_s:.1f} s"


@dataclass
class LogWatch:
    """Looks at the logs of one service. `replicas` names those whose logs are looked at often."""

    layout: Layout
    limit: Callable[[], LogLimit]
    replicas: Callable[[], Iterable[str]]
    flooded: Callable[[str, str], None]
    """Called with the replica's name and the reason."""
    tell: Tell
    clock: Callable[[], float] = time.monotonic
    _growths: dict[Path, Growth] = field(default_factory=dict)
    _failed: dict[Path, float] = field(default_factory=dict)
    """When logs could not be rotated, until they can."""
    _all_at: float = float("-inf")
    _ending: bool = False

    async def run(self) -> None:
        """Look again and again. Runs until cancelled."""
        with contextlib.suppress(OSError):
            rotation.clear_parts(self.layout.logs)
        try:
            while True:
                await self.look()
                rises = any(growth.looks for growth in self._growths.values())
                await asyncio.sleep(LOOK_S if rises else QUIET_LOOK_S)
        finally:
            self._ending = True  # a copy that is under way in its thread is given up

    async def look(self) -> None:
        """Look once at every log whose time it is."""
        names = list(self.replicas())
        if names:
            # A person may have taken the folder away; without it no replica could start again.
            with contextlib.suppress(OSError):
                self.layout.logs.mkdir(exist_ok=True)
        logs = {self.layout.replica_log(name): name for name in names}
        self._growths = {path: grown for path, grown in self._growths.items() if path in logs}
        for path, name in logs.items():
            await self._look_at(path, name)
        if self.clock() - self._all_at > ALL_LOGS_S:
            self._all_at = self.clock()
            self._forget_removed({name.partition("-")[0] for name in names})
            for path in [*self.layout.logs.glob("*.log"), *self.layout.logs.glob("*.jsonl")]:
                if path not in logs:
                    await self._look_at(path, "")

    def _forget_removed(self, running: Container[str]) -> None:
        """Remove the logs of releases that retention has removed; a report has what mattered."""
        for path in self.layout.logs.glob("*"):
            found = REPLICA_LOG.fullmatch(path.name)
            if not found or found[1] in running or self.layout.release_dir(found[1]).exists():
                continue
            with contextlib.suppress(OSError):
                path.unlink()

    async def _look_at(self, path: Path, replica: str) -> None:
        """`replica` is "" for a log that belongs to none."""
        try:
            size = path.stat().st_size
        except OSError:
            return
        if replica:
            self._measure(path, size, replica)
        if size < self.limit().max_bytes:
            return
        await self._cut(path, size)
        if replica:
            # Neither the time that this took nor what came meanwhile counts.
            with contextlib.suppress(OSError):
                self._growths[path].restart(path.stat().st_size, self.clock())

    def _measure(self, path: Path, size: int, replica: str) -> None:
        now = self.clock()
        growth = self._growths.get(path)
        if growth is None:
            self._growths[path] = Growth(size, now, began=now)
            return
        growth.look(size, now)
        if why := growth.flood(self.limit()):
            self._growths[path] = Growth(size, now, began=now)
            self.flooded(replica, why)

    async def _cut(self, path: Path, size: int) -> None:
        """Rotate a log in a thread: a slow disk holds up nothing else."""
        limit = self.limit()
        far_over = size >= 2 * limit.max_bytes
        if not far_over and self.clock() - self._failed.get(path, float("-inf")) < RETRY_S:
            return
        try:
            await asyncio.to_thread(rotation.rotate, path, limit, lambda: self._ending)
            self._failed.pop(path, None)
        except OSError as error:
            if path not in self._failed:
                self.tell("", f"{path.name} can't be rotated: {error.strerror}")
            self._failed[path] = self.clock()
            if far_over:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(rotation.shorten, path, limit)
