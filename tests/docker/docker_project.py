"""A service on target `docker` as campaigns drive it, whatever its application is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opsctl.config.load import load
from opsctl.release_changes import is_name
from opsctl.targets.docker.names import BALANCER_PART, REPLICA_PART, Names
from opsctl.targets.docker.place import target_of
from opsctl.targets.docker.target import DockerTarget
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import ServiceProject
from tests.docker.bench_yard import Host

ENVIRONMENT = "production"


class DockerProject(ServiceProject, Protocol):
    """A project whose service runs on `host`, under a name that is the project's own."""

    @property
    def host(self) -> Host:
        """The engine."""

    @property
    def name(self) -> str:
        """The service's name on it."""

    def target(self) -> contextlib.closing[DockerTarget]:
        """The service's target, to be closed at the end of a block."""


def target_in(config: Path, service: str) -> contextlib.closing[DockerTarget]:
    """The target of a service in an opsctl.yaml, to be closed at the end of a block."""
    return contextlib.closing(target_of(load(config, environment=ENVIRONMENT, service=service)))


def put_on_docker(data: dict[str, Any], service: str, project: DockerProject) -> dict[str, Any]:
    """Change what is in an opsctl.yaml so that the service runs on the project's host; its part."""
    part: dict[str, Any] = data["services"][service]
    part.pop("local", None)
    own = {"name": project.name, "port": project.port, "agent_base": project.host.base}
    part["docker"] = {**own, **part.get("docker", {})}
    data["environments"] = {ENVIRONMENT: {"target": "docker"}}
    return part


def copy_state(project: DockerProject, copy: Path, serial_of: Callable[[Any], str]) -> Path:
    """The service's state on the host, as target `local` has it; `serial_of` a release's JSON."""
    with project.target() as target:
        (copy / "journal").mkdir(parents=True, exist_ok=True)
        for name in target.storage.names("journal"):
            kept = target.storage.read(f"journal/{name}")
            (copy / "journal" / name).write_bytes(kept.data if kept else b"")
        for release in filter(is_name, target.storage.names("releases")):
            kept = target.storage.read(f"releases/{release}/release.json")
            if kept is not None:
                folder = copy / "releases" / release / "app"
                folder.mkdir(parents=True, exist_ok=True)
                folder.joinpath("serial.txt").write_text(serial_of(json.loads(kept.data)))
    return copy


@dataclass(frozen=True)
class DockerOpsctl(Opsctl):
    """The command, in a project whose service runs as containers."""

    project: DockerProject

    def processes(self) -> dict[int, str]:
        """What works in the project's folder here, and first processes of containers."""
        found = super().processes()
        api, names = self.project.host.engine.api, Names(self.project.name)
        for part, line in ((REPLICA_PART, self.project.replica_mark), (BALANCER_PART, "haproxy")):
            for one in api.containers(filters=names.filters(part)):
                found[api.inspect_container(one["Id"])["State"]["Pid"]] = line
        return found

    def down(self) -> list[str]:
        """Take everything down; processes and containers that were left (and are now ended)."""
        left = super().down()
        with self.project.target() as target:
            found = target.engine.api.containers(all=True, filters=target.names.filters())
            target.storage.destroy()
        return [*left, *(one["Names"][0] for one in found)]
