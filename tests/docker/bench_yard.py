"""This machine's Docker engine as tests use it: images of the test applications, services on it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import shlex
import tarfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from opsctl import shell
from opsctl.config import settings
from opsctl.errors import OpsctlError
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.place import target_of
from opsctl.targets.docker.target import DockerTarget

ROOT = Path(__file__).parents[2]
FIRST_TIME_MAX_S = 900
"""Of a test on a machine whose engine has no image yet: the first one makes them."""

ALIEN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01\x00\x00\x00" + bytes(40)
"""A program's header (ELF-64) for AArch64, which no other machine runs."""

PYTHON = """
FROM {base}
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends python3-minimal libpython3-stdlib \\
 && rm -rf /var/lib/apt/lists/*
"""
APP = """
FROM {python}
COPY . /app
WORKDIR /app
"""


@dataclass(frozen=True)
class Host:
    """An engine with a base image."""

    engine: Engine
    base: str
    registry: str

    def target(self, folder: Path, **docker: Any) -> DockerTarget:
        """A service with a name of its own; nothing of it runs yet."""
        return target_of(self.project(folder, **docker))

    def project(self, folder: Path, image: str | None = None, **docker: Any) -> settings.Project:
        """A project whose service listens on the first free port."""
        name = docker.pop("name", f"test-{uuid.uuid4().hex[:8]}")
        docker = {"port": "auto", "name": name, "agent_base": self.base, **docker}
        service = settings.Service(
            app=settings.App(directory="app", command=("{python}", "/app/app.py"), image=image),
            strategy=settings.Strategy(drain_timeout_s=5.0),
            docker=settings.Docker(**docker),
        )
        config = settings.Config(services={"svc": service})
        folder.mkdir(parents=True, exist_ok=True)
        return settings.Project(folder / "opsctl.yaml", config, "test", "svc", service, "docker")

    def app_image(self, python: str = "") -> str:
        """An image of the tests' small application, on top of one with Python; its id."""
        app = (ROOT / "tests/targets/app.py").read_bytes()
        return self.image({"app.py": app, "alien": ALIEN}, python=python)

    def image(self, files: Mapping[str, bytes], tag: str = "", python: str = "") -> str:
        """An image with `files` in /app on top of one with Python; its id."""
        python = python or self.built(PYTHON.format(base=self.base), {}, "opsctl-test-python")
        return self.built(APP.format(python=python), files, tag)

    def push(self, image: str, name: str) -> str:
        """Push an image to a registry under a name with a tag; its digest there."""
        repository, _, tag = name.rpartition(":")
        self.engine.api.tag(image, repository, tag)
        lines = list(self.engine.api.push(repository, tag, stream=True, decode=True))
        return next(str(line["aux"]["Digest"]) for line in lines if "aux" in line)

    def remove_images(self, repository: str) -> None:
        """Remove the images of a test."""
        for image in self.engine.api.images(repository):
            names = [*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())]
            for name in names:
                # The last name takes the image with it, and so the other spelling of itself.
                with contextlib.suppress(NotFound):
                    self.engine.api.remove_image(name, force=True)

    def built(self, dockerfile: str, files: Mapping[str, bytes], tag: str = "") -> str:
        """An image of a Dockerfile and the files beside it; its id."""
        context = {"Dockerfile": dockerfile.encode(), **files}
        digest = hashlib.sha256(repr(sorted(context.items())).encode()).hexdigest()[:12]
        name = tag or f"opsctl-test:{digest}"
        with self.engine.lasting("cannot build a test image") as api:
            lines = list(
                api.build(fileobj=_tar(context), custom_context=True, tag=name, rm=True,
                          decode=True)
            )  # fmt: skip
        problems = [line["error"] for line in lines if "error" in line]
        assert not problems, (problems, lines[-10:])
        return str(self.engine.api.inspect_image(name)["Id"])


def host_or_skip() -> Host:
    """The engine that `scripts/docker up` made ready; skips the test without one."""
    found = _environment()
    if "OPSCTL_TEST_BASE" not in found:
        pytest.skip("no Docker engine is ready (scripts/docker up)")
    engine = Engine(settings.Docker())
    try:
        engine.api.ping()
    except OpsctlError as error:
        pytest.skip(str(error))
    return Host(engine, found["OPSCTL_TEST_BASE"], found["OPSCTL_TEST_REGISTRY"])


def tools_path() -> str:
    """The search path with cosign and the like in front."""
    return os.path.expandvars(_environment().get("PATH", "$PATH"))


def newer_engine() -> str:
    """The program of an engine that is years younger than this machine's; skips without one."""
    found = _environment().get("OPSCTL_TEST_NEWER_ENGINE", "")
    if not Path(found).is_file():
        pytest.skip("there is no newer engine (scripts/docker up)")
    return found


@functools.cache
def _environment() -> Mapping[str, str]:
    """What `scripts/docker env` says."""
    done = shell.run([str(ROOT / "scripts/docker"), "env"], timeout_s=20, env=dict(os.environ))
    words = [shlex.split(line)[-1] for line in done.stdout.splitlines() if "=" in line]
    return dict(word.split("=", 1) for word in words) if done.ok else {}


def _tar(files: Mapping[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755 if data.startswith(b"\x7fELF") else 0o644
            archive.addfile(info, io.BytesIO(data))
    buffer.seek(0)
    return buffer
