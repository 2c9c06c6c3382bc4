"""The light service as a project on target `docker`: each candidate is an image of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from opsctl.targets.docker.target import DockerTarget
from tests.apps.project import SERVICE, Candidate, LightProject, Options, free_port, write
from tests.docker.bench_yard import Host
from tests.docker.docker_project import copy_state, put_on_docker, target_in

COMMAND = (
    *("{python}", "-S", "-E", "/app/light.py", "--port", "{port}"),
    *("--health-port", "{health_port}", "--model", "{model}"),
    *("--release", "{release}"),
)


@dataclass(frozen=True)
class DockerLight(LightProject):
    """A project on disk whose service runs on `host`, under a name that is the project's own."""

    host: Host
    name: str

    @property
    def state(self) -> Path:
        """A copy of the service's state on the host, made when it is asked for.

        A release's `app/serial.txt` comes from the tag of its image.
        """
        return copy_state(self, super().state, self._serial)

    def target(self) -> contextlib.closing[DockerTarget]:
        """The service's target, to be closed at the end of a block."""
        return target_in(self.config, SERVICE)

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

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the service in opsctl.yaml, and say that it runs on docker."""
        data = yaml.safe_load(self.config.read_text())
        service = put_on_docker(data, SERVICE, self)
        service["app"]["command"] = [*COMMAND, "--work-ms", str(self.options.work_ms)]
        change(service)
        self.config.write_text(yaml.safe_dump(data, sort_keys=False))


def light_on(host: Host, root: Path, options: Options, name: str) -> DockerLight:
    """A new project in `root` with a good service and its front door on a free port."""
    port = free_port()
    write(root, options, port)
    project = DockerLight(root, port, options, host, name)
    project.change(Candidate("first"), 0)
    return project
