"""A running container, as whoever keeps it running sees it, and the one place that watches all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.agent.daemon import Daemon, Event
from opsctl.targets.docker.engine import Missing
from opsctl.targets.docker.names import Names

SIGNAL_BASE = 128
"""A container's exit code for a signal is 128 plus its number."""

SIGNALS = range(1, 65)
LOG_LINES = 5
RECHECK_S = 2.0
"""How often all are looked at, as an event may be lost while the engine restarts."""


class WatchedContainer:
    """One run of a container. `exited` is done when it has ended."""

    def __init__(self, hub: ContainerHub, info: Mapping[str, Any]) -> None:
        self.id: str = info["Id"]
        self.started_at: str = info["State"]["StartedAt"]
        self.pid: int = info["State"]["Pid"]
        self.start_ticks = 0
        self.exit_code: int | None = None
        """Negative for a signal."""
        self.out_of_memory = False
        """Whether the kernel killed something of it for memory (it may run on)."""
        self.last_lines = ""
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hub = hub

    @property
    def running(self) -> bool:
        return not self.exited.done()

    def signal(self, number: int) -> None:
        """Send a signal to its first process."""
        if self.running:
            self._hub.kill(self.id, number)

    async def wait(self, timeout_s: float) -> bool:
        """Whether it ended within the time."""
        done, _ = await asyncio.wait({self.exited}, timeout=timeout_s)
        return bool(done)

    def end(self, state: Mapping[str, Any], last_lines: str) -> None:
        """Note how it ended."""
        code = int(state["ExitCode"])
        self.exit_code = SIGNAL_BASE - code if code - SIGNAL_BASE in SIGNALS else code
        self.out_of_memory = self.out_of_memory or bool(state["OOMKilled"])
        self.last_lines = last_lines
        if not self.exited.done():
            self.exited.set_result(None)


class ContainerHub:
    """Watches all running containers of a service, by the engine's events and by looking."""

    def __init__(self, daemon: Daemon, names: Names) -> None:
        self._daemon = daemon
        self._names = names
        self._watched: dict[str, WatchedContainer] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Listen to the engine from now on."""
        wanted = {**self._names.filters(), "type": "container", "event": ["die", "oom"]}
        self._daemon.watch(wanted, self._took)
        self._spawn(self._look_again())

    def watch(self, info: Mapping[str, Any]) -> WatchedContainer:
        """Watch a container that runs, by what `inspect` says of it."""
        watched = WatchedContainer(self, info)
        self._watched[watched.id] = watched
        return watched

    def kill(self, container: str, number: int) -> None:
        """Send a signal, and don't wait for it."""
        self._spawn(self._kill(container, number))

    async def _kill(self, container: str, number: int) -> None:
        with contextlib.suppress(TargetUnreachable):  # it has ended meanwhile
            await self._daemon.do("cannot signal", lambda api: api.kill(container, number))

    def _took(self, event: Event | None) -> None:
        if event is None:
            for watched in list(self._watched.values()):
                self._spawn(self._look_at(watched))
            return
        found = self._watched.get(event["Actor"]["ID"])
        if found is None:
            return
        if event["Action"] == "oom":
            found.out_of_memory = True
        else:
            self._spawn(self._look_at(found))

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_S)
            for watched in list(self._watched.values()):
                await self._look_at(watched)

    async def _look_at(self, watched: WatchedContainer) -> None:
        """End the watch when that very run is over."""
        try:
            info = await self._daemon.do("look", lambda api: api.inspect_container(watched.id))
        except Missing:
            info = {"State": {"Running": False, "ExitCode": SIGNAL_BASE + 9, "OOMKilled": False}}
        except TargetUnreachable:
            return  # looked at again soon
        state = info["State"]
        if state["Running"] and state.get("StartedAt") == watched.started_at:
            return
        lines = await self._last_lines(watched)
        if watched.running:
            watched.end(state, lines)
        if self._watched.get(watched.id) is watched:
            del self._watched[watched.id]

    async def _last_lines(self, watched: WatchedContainer) -> str:
        """What it wrote last, on one line."""
        try:
            text = await self._daemon.do(
                "read the log", lambda api: api.logs(watched.id, tail=LOG_LINES)
            )
        except TargetUnreachable:
            return ""
        lines = [line.strip() for line in text.decode(errors="replace").splitlines()]
        return " | ".join(filter(None, lines))[-600:]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
