"""The Docker engine and its builders, as `opsctl build` and `verify` need them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.model import Json
from opsctl.shell import Completed, run

ASK_TIMEOUT_S = 60.0
"""Time limit of questions to the engine."""

_ADDRESS = re.compile(r"(unix|tcp|docker-container|kube-pod)://")


@dataclass(frozen=True)
class Builder:
    """A buildx builder. `modern`: it is BuildKit of its own, not the engine's built-in one."""

    name: str
    driver: str

    @property
    def modern(self) -> bool:
        return self.driver != "docker"

    @property
    def lacks(self) -> tuple[str, ...]:
        """What an image from this builder will not have."""
        if self.modern:
            return ()
        return (
            "reproducible digests (its BuildKit can't set the times of files)",
            "the build's cache in a registry",
            "steps that are cut off from the network one by one",
        )


def docker(*arguments: str, timeout_s: float = ASK_TIMEOUT_S) -> Completed:
    """Run `docker …` to its end."""
    return run(["docker", *arguments], timeout_s=timeout_s)


def find_builder(wanted: str) -> Builder:
    """The builder that `build.builder` names, made when it is an address.

    Raises PreflightRefused when there is none: a build without BuildKit has no secrets.
    """
    if docker("buildx", "version").exit_code != 0:
        raise PreflightRefused(
            "`docker buildx` is missing",
            why="images are built with BuildKit: the old builder has neither secrets nor cache "
            "mounts",
            next_step="Install the package docker-buildx (docker-buildx-plugin)",
        )
    if _ADDRESS.match(wanted):
        return Builder(_made(wanted), "remote")
    asked = docker("buildx", "inspect", *([] if wanted == "auto" else [wanted]))
    fields = dict(re.findall(r"^(Name|Driver):\s*(\S+)", asked.stdout, re.MULTILINE))
    if not asked.ok or "Driver" not in fields:
        raise PreflightRefused(
            f"no builder {wanted} answers" if wanted != "auto" else "no builder answers",
            why=asked.why,
            next_step="See: docker buildx ls; then set build.builder",
        )
    return Builder(fields["Name"], fields["Driver"])


def _made(address: str) -> str:
    """The name of a buildx builder for an address; buildx keeps it for the next time."""
    name = f"opsctl-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    if docker("buildx", "inspect", name).ok:
        return name
    made = docker("buildx", "create", "--name", name, "--driver", "remote", address)
    if not made.ok and not docker("buildx", "inspect", name).ok:
        raise PreflightRefused(
            f"the builder at {address} can't be used", why=made.why, next_step="See build.builder"
        )
    return name


def image_id(name: str) -> str | None:
    """The ID of an image that the engine has, else None."""
    asked = docker("image", "inspect", "--format", "{{.Id}}", name)
    return asked.stdout.strip() if asked.ok else None


def require_engine() -> None:
    """Raises BuildFailed when no engine answers."""
    asked = docker("version", "--format", "{{.Server.APIVersion}}")
    if not asked.ok:
        raise BuildFailed(
            "the Docker engine does not answer",
            why=asked.why,
            next_step="Start it, or set DOCKER_HOST, then run the same again",
        )


def own_platform() -> str:
    """This machine's platform, as images name it."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return f"linux/{names.get(platform.machine(), platform.machine())}"


def docker_config() -> Json:
    """docker's own configuration file, empty when there is none."""
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        data: Json = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data
