"""Where replicas are made: containers created, started and removed, and what a start says."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.docker import container as making
from opsctl.targets.docker import npus
from opsctl.targets.docker.agent.daemon import Daemon
from opsctl.targets.docker.agent.watched_container import ContainerHub, WatchedContainer
from opsctl.targets.docker.container import Limits, Recipe
from opsctl.targets.docker.engine import Missing, Refused
from opsctl.targets.docker.names import NPUS, PORTS, REPLICA_PART, Names, replica_labels
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.launch import Household, Launch, Seat
from opsctl.targets.supervisor.replica_plan import ReplicaPlan

CONFIG = "io.opsctl.config"
"""Label with the digest of a container's settings: another digest needs another container."""

STOP_S = 10


class Yard:
    """The containers of one service's replicas."""

    def __init__(self, daemon: Daemon, hub: ContainerHub, names: Names) -> None:
        self.daemon = daemon
        self.names = names
        self._hub = hub
        self._choosing = asyncio.Lock()

    async def run(
        self, plan: ReplicaPlan, launch: Launch, household: Household
    ) -> tuple[WatchedContainer, Seat]:
        """Start a replica's container, made anew when there is none or its settings changed.

        Raises Missing (image or device), Refused (the engine can't start it), TargetUnreachable.
        """
        name = self.names.replica(plan.name)
        await self._require_image(launch)
        # One after the other: two replicas must not find the same NPU free.
        async with self._choosing:
            await self._ensure(name, plan, launch, household)
        await self.daemon.do(
            f"cannot start the container of {plan.name}", lambda api: api.start(name)
        )
        return await self._started(plan, name)

    async def _ensure(
        self, name: str, plan: ReplicaPlan, launch: Launch, household: Household
    ) -> None:
        """Make the container, unless there is one with the same settings."""
        config = await self._config(plan, launch, household)
        info = await self._inspect(name)
        if info is not None and info["Config"]["Labels"].get(CONFIG) != config["Labels"][CONFIG]:
            await self.remove(name)
            info = None
        if info is None:
            await self.daemon.do(
                f"cannot create the container of {plan.name}",
                lambda api: api.create_container_from_config(config, name),
            )

    async def adopt(self, plan: ReplicaPlan) -> tuple[WatchedContainer, Seat] | None:
        """Take over the container of a replica that runs; None when it doesn't."""
        info = await self._inspect(self.names.replica(plan.name))
        if info is None or not info["State"]["Running"]:
            return None
        return self._hub.watch(info), self._seat(plan, info)

    async def listed(self) -> list[Mapping[str, Any]]:
        """All containers of replicas, those that ended too."""
        found: list[Mapping[str, Any]] = await self.daemon.do(
            "cannot list the containers",
            lambda api: api.containers(all=True, filters=self.names.filters(REPLICA_PART)),
        )
        return found

    async def remove(self, name: str) -> None:
        """Remove a container; nothing happens without one."""
        with contextlib.suppress(Missing):
            await self.daemon.do(
                f"cannot remove the container {name}",
                lambda api: api.remove_container(name, force=True, v=True),
            )

    async def pin(self, name: str, cpus: tuple[int, ...]) -> None:
        """Move a running container to some CPUs (to all, when there are none)."""
        with contextlib.suppress(Missing, Refused):  # it has ended: its next start goes there
            total = (await self.daemon.do("cannot ask the engine", lambda api: api.info()))["NCPU"]
            wanted = ",".join(map(str, cpus or range(total)))
            await self.daemon.do(
                "cannot pin", lambda api: api.update_container(name, cpuset_cpus=wanted)
            )

    async def memory_bytes(self, watched: WatchedContainer) -> int:
        """Memory of a container without what the kernel only caches for it."""
        try:
            seen = await self.daemon.do(
                "cannot read the memory",
                lambda api: api.stats(watched.id, stream=False),
            )
        except TargetUnreachable:
            return 0
        return resident_bytes(seen)

    async def _started(self, plan: ReplicaPlan, name: str) -> tuple[WatchedContainer, Seat]:
        info = await self._inspect(name)
        if info is None:
            raise TargetUnreachable(f"the container of {plan.name} went away as it started")
        return self._hub.watch(info), self._seat(plan, info)

    def _seat(self, plan: ReplicaPlan, info: Mapping[str, Any]) -> Seat:
        port, health_port = map(int, info["Config"]["Labels"][PORTS].split())
        network = info["NetworkSettings"]["Networks"].get(self.names.network, {})
        return Seat(plan.name, port, health_port, network.get("IPAddress") or launching.LOOPBACK)

    async def _require_image(self, launch: Launch) -> None:
        """The image by its digest, pulled again when somebody removed it."""
        try:
            await self.daemon.do(
                f"the image of {launch.release} is missing",
                lambda api: api.inspect_image(launch.image),
            )
        except Missing as error:
            if "@" not in launch.image:
                raise
            try:
                await self.daemon.do(
                    f"the image of {launch.release} can't be pulled",
                    lambda api: pull(api, launch.image),
                )
            except TargetUnreachable as failed:
                raise failed from error

    async def _config(self, plan: ReplicaPlan, launch: Launch, household: Household) -> Json:
        limits = Limits.from_dict(launch.container)
        port, health_port = ports_of(launch)
        seat = Seat(plan.name, port, health_port)
        labels = replica_labels(self.names, plan.release, plan.name, f"{port} {health_port}")
        devices, held = await self._devices(plan, limits)
        recipe = Recipe(
            image=launch.image,
            command=launching.command(launch, seat),
            env=launching.environment(launch, seat, household),
            labels={**labels, **({NPUS: " ".join(map(str, held))} if held else {})},
            limits=limits,
            memory_mb=launch.memory_mb,
            cpus=plan.cpus or launch.cpus,
            directory=making.working_dir(launch.directory),
            health=() if limits.image_health
            else making.python_health(launch.python, health_port, launch.health.path),
        )  # fmt: skip
        config = making.config_of(recipe, self.names, self.names.network, devices)
        text = json.dumps(config, sort_keys=True).encode()
        config["Labels"][CONFIG] = hashlib.sha256(text).hexdigest()[:16]
        return config

    async def _devices(self, plan: ReplicaPlan, limits: Limits) -> tuple[Json, tuple[int, ...]]:
        """The container's NPUs, and which they are: those that it had, else free ones."""
        if not limits.npus:
            return {}, ()
        everywhere = await self.daemon.do(
            "cannot list the containers",
            lambda api: api.containers(all=True, filters={"label": [NPUS]}),
        )
        held = npus.choose(limits.npus, self.names.replica(plan.name), plan.release, everywhere)
        return npus.devices_of(limits.npus, held), held

    async def _inspect(self, name: str) -> Mapping[str, Any] | None:
        try:
            info: Mapping[str, Any] = await self.daemon.do(
                f"cannot look at the container {name}", lambda api: api.inspect_container(name)
            )
        except Missing:
            return None
        return info


def pull(api: Any, image: str) -> None:
    """Pull an image by digest. Raises docker.errors.APIError."""
    from docker.errors import APIError

    for line in api.pull(image, stream=True, decode=True):
        if "error" in line:
            raise APIError(line["error"])


def ports_of(launch: Launch) -> tuple[int, int]:
    """Where a replica listens inside its container; one port when its command knows but one."""
    limits = Limits.from_dict(launch.container)
    one = launching.answers_on_one_port(launch)
    return limits.port, limits.port if one else limits.health_port


def resident_bytes(stats: Mapping[str, Any]) -> int:
    """What `docker stats` shows as memory in use (cgroup v1 and v2 name the cache differently)."""
    memory = stats.get("memory_stats", {})
    detail = memory.get("stats", {})
    cache = detail.get("total_inactive_file", detail.get("inactive_file", 0))
    return max(0, int(memory.get("usage", 0)) - int(cache))
