"""Replicas on their way out: drained, taken from the balancer, and only then stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container
from dataclasses import dataclass

from opsctl.errors import OpsctlError
from opsctl.targets.supervisor.balancer import Balancer
from opsctl.targets.supervisor.fleet import Fleet
from opsctl.targets.supervisor.replica_plan import Surroundings

RETRY_S = 0.2


@dataclass
class _Leaving:
    task: asyncio.Task[None]
    stopping: bool = False
    """From here on there is no way back."""


class Removals:
    """The removals that are under way, by replica."""

    def __init__(self, fleet: Fleet, balancer: Balancer, around: Surroundings) -> None:
        self._fleet = fleet
        self._balancer = balancer
        self._around = around
        self._leaving: dict[str, _Leaving] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._leaving

    def begin(self, name: str, drain_timeout_s: float) -> None:
        """Start to remove a replica."""
        task = self._around.tasks.begin(self._remove(name, drain_timeout_s), f"remove {name}")
        self._leaving[name] = _Leaving(task)

    def cancel_wanted(self, wanted: Container[str]) -> None:
        """Keep replicas that are wanted again and were not told to stop yet."""
        for name, leaving in list(self._leaving.items()):
            if name in wanted and not leaving.stopping:
                leaving.task.cancel()
                del self._leaving[name]

    async def all_at_once(self, drain_timeout_s: float) -> None:
        """Remove every replica, and wait for it."""
        for name in list(self._fleet.runners):
            if name not in self._leaving:
                self.begin(name, drain_timeout_s)
        await asyncio.gather(*(leaving.task for leaving in self._leaving.values()))

    async def _remove(self, name: str, drain_timeout_s: float) -> None:
        runner = self._fleet.runners[name]
        release = runner.plan.release
        while name in self._balancer.servers:
            try:
                if not await self._balancer.remove(name, drain_timeout_s):
                    text = f"{name} still had requests after {drain_timeout_s:g} s"
                    self._around.tell(release, text)
            except (OpsctlError, OSError):
                await asyncio.sleep(RETRY_S)
        self._leaving[name].stopping = True
        with contextlib.suppress(OSError):
            await runner.stop()
        await self._balancer.vacate(name)
        del self._fleet.runners[name]
        del self._leaving[name]
        self._around.tell(release, f"{name} stopped and removed")
        self._around.changed()
