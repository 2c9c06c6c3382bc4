"""The light service as a project on target `docker`: each candidate is an image of its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from opsctl.config.load import load
from opsctl.release_changes import is_name
from opsctl.targets.docker.names import BALANCER_PART, REPLICA_PART, Names
from opsctl.targets.docker.place import target_of
from opsctl.targets.docker.target import DockerTarget
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import (
    SERVICE,
    Candidate,
    LightProject,
    Options,
    ServiceProject,
    free_port,
    write,
)
from tests.docker.bench_yard import Host

COMMAND = (
    *("{python}", "-S", "-E", "/app/light.py", "--port", "{port}"),
    *("--health-port", "{health_port}", "--model", "{model}"),
    *("--release", "{release}"),
)


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


def copy_state(project: DockerProject, copy: Path, serial_of: Callable[[Any], str]) -> None:
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


@dataclass(frozen=True)
class DockerLight(LightProject):
    """A project on disk whose service runs on `host`, under a name that is the project's own."""

    host: Host
    name: str

    @property
    def replica_mark(self) -> str:
        """Part of a replica's command line that no other process has."""
        return "light.py --port"

    @property
    def state(self) -> Path:
        """A copy of the service's state on the host, made when it is asked for.

        A release's `app/serial.txt` comes from the tag of its image.
        """
        copy = super().state
        copy_state(self, copy, self._serial)
        return copy

    def target(self) -> contextlib.closing[DockerTarget]:
        """The service's target, to be closed at the end of a block."""
        return contextlib.closing(
            target_of(load(self.config, environment="production", service=SERVICE))
        )

    def _serial(self, release: Any) -> str:
        tags = self.host.engine.api.inspect_image(release["launch"]["image"])["RepoTags"]
        return str(tags[0].rpartition(":")[2])

    def change(self, candidate: Candidate, serial: int | str) -> None:
        """Build the candidate's image, and name it in opsctl.yaml."""
        super().change(candidate, serial)
        files = {path.name: path.read_bytes() for path in (self.root / "app").iterdir()}
        image = f"opsctl-test-{self.name}:{serial}"
        self.host.image(files, image)
        self.edit(lambda service: service["app"].update(image=image))

    def edit(self, change: Any) -> None:
        """Change the service in opsctl.yaml, and say that it runs on docker."""
        data = yaml.safe_load(self.config.read_text())
        service = data["services"][SERVICE]
        service.pop("local", None)
        service["app"]["command"] = [*COMMAND, "--work-ms", str(self.options.work_ms)]
        service["docker"] = {
            "name": self.name, "port": self.port, "agent_base": self.host.base,
            **service.get("docker", {}),
        }  # fmt: skip
        data["environments"] = {"production": {"target": "docker"}}
        change(service)
        self.config.write_text(yaml.safe_dump(data, sort_keys=False))


def light_on(host: Host, root: Path, options: Options, name: str) -> DockerLight:
    """A new project in `root` with a good service and its front door on a free port."""
    port = free_port()
    write(root, options, port)
    project = DockerLight(root, port, options, host, name)
    project.change(Candidate("first"), 0)
    return project


@dataclass(frozen=True)
class DockerOpsctl(Opsctl):
    """The command, in a project whose service runs as containers."""

    light: DockerProject

    def processes(self) -> dict[int, str]:
        """What works in the project's folder here, and first processes of containers."""
        found = super().processes()
        api, names = self.light.host.engine.api, Names(self.light.name)
        for part, line in ((REPLICA_PART, self.light.replica_mark), (BALANCER_PART, "haproxy")):
            for one in api.containers(filters=names.filters(part)):
                found[api.inspect_container(one["Id"])["State"]["Pid"]] = line
        return found

    def down(self) -> list[str]:
        """Take everything down; processes and containers that were left (and are now ended)."""
        left = super().down()
        with self.light.target() as target:
            found = target.engine.api.containers(all=True, filters=target.names.filters())
            target.storage.destroy()
        return [*left, *(one["Names"][0] for one in found)]
