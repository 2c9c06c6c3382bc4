"""All replicas of a service as containers."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.model import Role
from opsctl.targets.docker.agent.container_runner import ContainerRunner, out_of_memory_text
from opsctl.targets.docker.agent.watched_container import WatchedContainer
from opsctl.targets.docker.agent.yard import Yard
from opsctl.targets.docker.names import RELEASE, REPLICA
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.fleet import Fleet
from opsctl.targets.supervisor.launch import Launch
from opsctl.targets.supervisor.replica import ReplicaRunner
from opsctl.targets.supervisor.replica_plan import ReplicaPlan, Surroundings

LOOK_S = 1.0
MEMORY_EVERY = 5
"""Memory is read at each fifth look: the engine needs a file system scan for it."""


class ContainerFleet(Fleet):
    """The replicas by name."""

    def __init__(self, around: Surroundings, yard: Yard) -> None:
        super().__init__(around)
        self._yard = yard
        self._memory: dict[str, int] = {}

    async def adopt(self, records: list[dict[str, Any]], wanted: Container[str]) -> None:
        """Take over what runs already, known by its labels; what ended and is wanted is begun.

        What ended and is not wanted is removed.
        """
        known = {record["name"]: record for record in records}
        for listed in await self._yard.listed():
            name = listed["Labels"][REPLICA]
            known.setdefault(name, _record_of(listed["Labels"]))
        for record in known.values():
            await self._adopt_one(record, wanted)

    async def _adopt_one(self, record: dict[str, Any], wanted: Container[str]) -> None:
        plan = ReplicaPlan(record["name"], record["release"], record["role"])
        runner = ContainerRunner(plan, self._launch(plan), self._around, self._yard)
        found = await self._yard.adopt(plan)
        if runner.take_over(record, found):
            self._around.tell(plan.release, f"{plan.name} adopted: {runner.seat.host}")
        elif plan.name not in wanted:
            await self._yard.remove(self._yard.names.replica(plan.name))
            return
        elif record["pid"]:
            runner.restarts += 1
            self._around.tell(plan.release, f"{plan.name} ended while nobody watched")
        self.runners[plan.name] = runner
        runner.begin()

    def _launch(self, plan: ReplicaPlan) -> Launch:
        layout = self._around.household.layout
        try:
            return launching.load(layout, plan.release)
        except OpsctlError as error:
            # It may be serving: it is kept, and only its next start will fail.
            self._around.tell(plan.release, str(error))
            return Launch(plan.release, (), "", layout.run)

    async def watch_memory(self) -> None:
        """Read what replicas use; end one whose child the kernel killed. Runs until cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            looks += 1
            for name, runner in list(self.runners.items()):
                watched = runner.process
                if not isinstance(watched, WatchedContainer) or not watched.running:
                    continue
                if watched.out_of_memory:
                    runner.kill(out_of_memory_text(runner.launch.memory_mb))
                elif looks % MEMORY_EVERY == 0:
                    self._memory[name] = await self._yard.memory_bytes(watched)
            self._memory = {n: size for n, size in self._memory.items() if n in self.runners}

    def members(self, *, fresh: bool = False) -> dict[int, list[int]]:
        """Containers need no scan of the process table."""
        return {}

    def _made(self, plan: ReplicaPlan, launch: Launch) -> ReplicaRunner:
        return ContainerRunner(plan, launch, self._around, self._yard)

    def _pin(self, runner: ReplicaRunner) -> None:
        name = self._yard.names.replica(runner.plan.name)
        cpus = runner.plan.cpus or runner.launch.cpus
        self._around.tasks.begin(self._yard.pin(name, cpus), f"pin {runner.plan.name}")

    def _rss(self, runner: ReplicaRunner, members: Mapping[int, list[int]]) -> int:
        return self._memory.get(runner.plan.name, 0)


def _record_of(labels: Mapping[str, str]) -> dict[str, Any]:
    """A replica's record made from its labels, when the agent's memory is lost."""
    name = labels[REPLICA]
    role: Role = "baseline" if name.partition("-")[2].startswith("b") else "serving"
    return {
        "name": name, "release": labels[RELEASE], "role": role, "pid": 1,
        "restarts": 0, "proved": False, "ready": False,
    }  # fmt: skip
