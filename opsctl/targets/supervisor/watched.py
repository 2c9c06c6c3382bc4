"""A process that is watched through a pidfd, whether it is our child or was adopted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from typing import Protocol

from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.procfs import Identity


class Watched(Protocol):
    """What runs of a replica, as whoever keeps it running sees it."""

    exit_code: int | None
    exited: asyncio.Future[None]

    @property
    def pid(self) -> int:
        """Its process on the machine where it runs."""

    @property
    def start_ticks(self) -> int:
        """With the pid, what tells it from every other process."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""

    async def wait(self, timeout_s: float) -> bool:
        """Whether it ended within the time."""


class WatchedProcess:
    """One running process. `exited` is done when it has ended.

    The pidfd (pidfd_open(2)) makes signals safe: they never hit a process that got the pid later.
    """

    def __init__(self, identity: Identity, popen: subprocess.Popen[bytes] | None) -> None:
        self.identity = identity
        self.exit_code: int | None = None
        """Negative for a signal; None while it runs, and for adopted processes."""
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._fd = os.pidfd_open(identity.pid)
        self._loop.add_reader(self._fd, self._on_exit)

    @classmethod
    def of_child(cls, popen: subprocess.Popen[bytes]) -> WatchedProcess:
        """Watch a process that was just spawned (it can't be reaped before we do it)."""
        found = procfs.identity(popen.pid)
        return cls(found or Identity(popen.pid, 0), popen)

    @classmethod
    def adopt(cls, identity: Identity) -> WatchedProcess | None:
        """Watch a process of an earlier supervisor; None when it has gone."""
        try:
            watched = cls(identity, None)
        except ProcessLookupError:
            return None
        # Looked at after the pidfd is open: from here on the pid can't be another process's.
        if procfs.is_alive(identity):
            return watched
        watched.forget()
        return None

    @property
    def pid(self) -> int:
        return self.identity.pid

    @property
    def start_ticks(self) -> int:
        return self.identity.start_ticks

    @property
    def running(self) -> bool:
        return not self.exited.done()

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when the process has ended."""
        if self._fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    async def wait(self, timeout_s: float) -> bool:
        """Whether it ended within the time."""
        done, _ = await asyncio.wait({self.exited}, timeout=timeout_s)
        return bool(done)

    def forget(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _on_exit(self) -> None:
        self.forget()
        if self._popen is not None:
            self.exit_code = self._popen.wait()
        if not self.exited.done():
            self.exited.set_result(None)


def kill_now(process: Identity) -> None:
    """SIGKILL that very process: never one that got its pid later, nor one that is not ours."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if procfs.is_alive(process):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def pin(process_ids: Iterable[int], cpus: Iterable[int]) -> None:
    """Move all threads of processes to `cpus` (to all CPUs when there are none)."""
    wanted = set(cpus) or set(range(os.cpu_count() or 1))
    for pid in process_ids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), wanted)


def exit_text(code: int | None) -> str:
    """How a process ended, for people."""
    if code is None:
        return "ended (its exit code went to an earlier supervisor)"
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
