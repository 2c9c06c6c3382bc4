"""One replica as a container: the runner of processes with other hands."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.targets.docker.agent.watched_container import WatchedContainer
from opsctl.targets.docker.agent.yard import Yard
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.launch import Launch, Seat
from opsctl.targets.supervisor.memory import MemoryLimit
from opsctl.targets.supervisor.probe import ProbeResult
from opsctl.targets.supervisor.remains import Ended
from opsctl.targets.supervisor.replica import ReplicaRunner
from opsctl.targets.supervisor.replica_plan import ReplicaPlan, Surroundings
from opsctl.targets.supervisor.watched import Watched, exit_text

CONNECT_S = 1.0


class ContainerRunner(ReplicaRunner):
    """Keeps one container running until `stop`."""

    def __init__(self, plan: ReplicaPlan, launch: Launch, around: Surroundings, yard: Yard) -> None:
        super().__init__(plan, launch, around)
        # The kernel limits a container's memory; nobody else has to watch it.
        self.memory = MemoryLimit(plan.name, None, around.household.layout.service_dir)
        self._yard = yard
        self._starting: asyncio.Task[tuple[WatchedContainer, Seat]] | None = None

    def take_over(
        self, record: dict[str, Any], found: tuple[WatchedContainer, Seat] | None
    ) -> bool:
        """Take over a container of an earlier agent; False when it does not run."""
        self.restarts, self.proved = record["restarts"], record["proved"]
        if found is None:
            return False
        self.process, self.seat = found
        if record["ready"]:
            # It was ready under the earlier agent: one more success confirms it.
            self.ready_streak = self.launch.health.streak - 1
            self._ready_since = time.monotonic()
        return True

    async def stop(self) -> None:
        """SIGTERM, wait as long as the release allows, SIGKILL; the container goes with it."""
        starting = self._starting
        if starting is not None:
            # A start that the engine works on can't be called back: it is waited for.
            with contextlib.suppress(OpsctlError):
                self.process, self.seat = await asyncio.shield(starting)
        await super().stop()
        await self._yard.remove(self._yard.names.replica(self.plan.name))

    async def _start(self) -> float:
        self._owned = False
        self._kill_reason = ""
        self._live_failures = 0
        household = self._around.household
        try:
            self.launch = launching.load(household.layout, self.plan.release)
            work = self._yard.run(self.plan, self.launch, household)
            self._starting = asyncio.create_task(work)
            container, seat = await asyncio.shield(self._starting)
        except (OSError, OpsctlError) as error:
            self._say("backoff", self.launch.redacted(f"cannot be started: {error}"))
            self._tell(self.reason)
            return self._crash_pause()
        self._starting = None
        self.process, self.seat = container, seat
        self._started_at = time.monotonic()
        self._say("starting", self._with_last_end("started"))
        self._tell(f"started: container {container.id[:12]}, {seat.host}:{seat.port}")
        self._around.changed()
        return 0.0

    async def _prove_owner(self, process: Watched) -> ProbeResult:
        """Nobody else can sit on a container's ports; but it must listen on both."""
        host, port = self.seat.host, self.seat.port
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(host, port)
        except OSError:  # TimeoutError is one
            return ProbeResult(0, f"nobody listens on its service port {port} yet")
        writer.close()
        self._owned = True
        return ProbeResult(200, "")

    async def _end_rest(self, process: Watched | None, since_ticks: int = 0) -> Ended:
        """Nothing outlives the first process of a container."""
        return Ended()

    def _port_lost(self) -> bool:
        return False

    def _why_ended(self, process: Watched) -> str:
        assert isinstance(process, WatchedContainer)
        reason = self._kill_reason or exit_text(process.exit_code)
        if process.out_of_memory:
            # A busy engine tells of the end later than a health check finds nobody there.
            found = (out_of_memory_text(self.launch.memory_mb), self._kill_reason)
            reason = "; ".join(filter(None, found))
        if self._started_at:
            reason += f" {time.monotonic() - self._started_at:.1f} s after its start"
        tail = f"last log lines: {process.last_lines}" if process.last_lines else ""
        return self.launch.redacted("; ".join(filter(None, (reason, tail))))


def out_of_memory_text(limit_mb: int | None) -> str:
    """Why a container was killed for memory."""
    if limit_mb is None:
        return "killed by the kernel: the Docker host has no memory left"
    return f"killed by the kernel: at its memory limit of {limit_mb} MiB"
