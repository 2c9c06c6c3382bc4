"""The supervisor of a service whose replicas are containers."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsctl.model import Json
from opsctl.storage_folder import FolderStorage
from opsctl.targets.docker.agent.balancer_container import BalancerContainer
from opsctl.targets.docker.agent.container_fleet import ContainerFleet
from opsctl.targets.docker.agent.daemon import SILENT_LIMIT_S, Daemon
from opsctl.targets.docker.agent.lease_lock import LeaseLock
from opsctl.targets.docker.agent.models import Models
from opsctl.targets.docker.agent.storing import Storing
from opsctl.targets.docker.agent.watched_container import ContainerHub
from opsctl.targets.docker.agent.yard import Yard
from opsctl.targets.docker.names import MODELS_DIR, Names
from opsctl.targets.supervisor import events, ports
from opsctl.targets.supervisor.core import Supervisor
from opsctl.targets.supervisor.fleet import Fleet
from opsctl.targets.supervisor.haproxy_process import Haproxy
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.replica_plan import Surroundings
from opsctl.targets.supervisor.server import called

MIB = 1024 * 1024
LOST_SOCKET = 75
"""EX_TEMPFAIL of sysexits(3): the engine starts the agent again, with its new socket."""


class Agent(Supervisor):
    """One service on a Docker host. The working directory must be `layout.run`."""

    def __init__(self, layout: Layout, names: Names, daemon: Daemon) -> None:
        self._names = names
        self._daemon = daemon
        self._hub = ContainerHub(daemon, names)
        self.yard = Yard(daemon, self._hub, names)
        self._lock = LeaseLock(layout.run / "lock.json")
        self._models = Models(Path(MODELS_DIR))
        self._storing = Storing(FolderStorage(layout.service_dir), self._lock)
        # Replicas inherit nothing of this container: what they get is their image's and declared.
        super().__init__(layout, {})

    async def adopt(self) -> None:
        """Take over what an earlier agent left behind."""
        self._hub.begin()
        await super().adopt()

    async def answer(self, request: Mapping[str, Any], line: object) -> Json:
        """Do what a request asks, which came on the connection `line`."""
        if request["call"] == "store":
            return self._storing.answer(request, line)
        if request["call"] == "events":
            return {"events": events.read(self._layout.events_file, request["release"])}
        if request["call"] == "models":
            return await asyncio.to_thread(self._models.answer, request)
        if request["call"] == "front":
            return {"port": self._front_forecast()}
        if request["call"] == "place":
            return self._place(request)
        return await called(self, request)

    def _front_forecast(self) -> int:
        """The front door's port, or the one that it would have now."""
        settings = self._settings
        return self._store.memory.front_port or ports.choose_front(settings.host, settings.section)

    def _place(self, request: Mapping[str, Any]) -> Json:
        """What preflight asks of this machine: disk, ports, NPUs."""
        port, host = request["port"], request["host"]
        free = not port or ports.is_free(port, host) or self._holds_port(port)
        return {
            "free_mb": shutil.disk_usage(self._layout.service_dir).free // MIB,
            "port_free": free,
            "port_holder": "" if free else ports.taken_by(port),
        }

    def hung_up(self, line: object) -> None:
        """A connection ended, perhaps that of whoever holds the lock."""
        self._lock.hung_up(line)

    def hello(self) -> Json:
        """Who answers, and which build of opsctl it is."""
        return {**super().hello(), "build": os.environ.get("OPSCTL_BUILD", "")}

    def _made_fleet(self, around: Surroundings) -> Fleet:
        return ContainerFleet(around, self.yard)

    def _made_haproxy(self, env: Mapping[str, str]) -> Haproxy:
        return BalancerContainer(
            self._daemon, self._hub, self._names, self._events.tell, self._changed
        )

    def _holds_port(self, port: int) -> bool:
        """A balancer that is just starting holds its port before it counts as up."""
        return port == self._store.memory.front_port and self._layout.haproxy_config.exists()

    def _housekeep(self) -> None:
        super()._housekeep()
        if self._daemon.silent_s > SILENT_LIMIT_S and self.exit_code is None:
            self._events.tell("", "the Docker engine's socket is lost; the agent starts again")
            self.exit_code = LOST_SOCKET

    def _end_of_service(self) -> None:
        """The agent stays, as the way to the state, until the command removes its container."""
        self._going_down = None
        self._events.tell("", "everything is stopped")
