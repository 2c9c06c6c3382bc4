"""The sample service as a project on target `docker`: TensorFlow, operators and code in one image,
which each deploy builds."""

from __future__ import annotations

import contextlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from opsctl import shell
from opsctl.targets.docker.target import DockerTarget
from tests.apps import anomaly
from tests.apps.anomaly import SERVICE, AnomalyProject
from tests.apps.project import Candidate
from tests.docker.bench_yard import ROOT, Host
from tests.docker.docker_project import DockerOpsctl, copy_state, put_on_docker, target_in
from tests.images.yard import BUILD_TIMEOUT_S, Yard, build_of

SOURCES = ("kernels", "images/requirements")
"""What the image is built from besides the service's own code."""

SERIAL = "/app/serial.txt"


@dataclass(frozen=True, kw_only=True)
class DockerAnomaly(AnomalyProject):
    """A project on disk whose service runs on `host`, under a name that is the project's own."""

    host: Host
    yard: Yard
    name: str

    @property
    def state(self) -> Path:
        """A copy of the service's state on the host, made when it is asked for."""
        return copy_state(self, super().state, self._serial)

    def target(self) -> contextlib.closing[DockerTarget]:
        """The service's target, to be closed at the end of a block."""
        return target_in(self.config, SERVICE)

    def change(self, candidate: Candidate, serial: int | str) -> None:
        """Turn the project into a candidate; its image is built by whoever deploys it."""
        super().change(candidate, serial)
        data = yaml.safe_load(self.config.read_text())
        put_on_docker(data, SERVICE, self)["build"] = build_of(self.yard)
        self.config.write_text(yaml.safe_dump(data, sort_keys=False))

    def _serial(self, release: Any) -> str:
        return file_of(self.host, release["launch"]["image"], SERIAL)


def anomaly_on(host: Host, yard: Yard, root: Path, models: Path, name: str) -> DockerOpsctl:
    """opsctl in a new project in `root`, whose image is built. Raises RuntimeError."""
    plain = anomaly.write(root, models)
    command = f"git archive HEAD {' '.join(SOURCES)} | tar -x -C {root}"
    done = shell.run(["bash", "-o", "pipefail", "-c", command], timeout_s=60, cwd=ROOT)
    if not done.ok:
        raise RuntimeError(f"the sources could not be copied: {done.why}")
    made = DockerAnomaly(root, plain.port, models, host=host, yard=yard, name=name)
    made.change(Candidate("first"), 0)
    opsctl = DockerOpsctl(made)
    built = shell.run(opsctl.argv("build"), timeout_s=BUILD_TIMEOUT_S, cwd=root, env=opsctl.env())
    if not built.ok:
        raise RuntimeError(f"the first build ended with {built.exit_code}: {built.stderr}")
    return opsctl


def file_of(host: Host, image: str, path: str) -> str:
    """The text of a file in an image that the engine has."""
    api = host.engine.api
    made = api.create_container(image, ["/bin/true"])["Id"]
    try:
        stream, _ = api.get_archive(made, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            assert file is not None
            return file.read().decode()
    finally:
        api.remove_container(made, force=True)
