"""Target `docker` as one service uses it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.target import DockerTarget

if TYPE_CHECKING:
    from opsctl.targets.docker.docker_releases import DockerReleaseStore


def target_of(project: Project) -> DockerTarget:
    """The target of a project. Making one touches nothing."""
    return DockerTarget(project, Engine(project.service.docker), _tell)


def releases_of(target: DockerTarget) -> DockerReleaseStore:
    """The store of its releases."""
    from opsctl.targets.docker.docker_releases import DockerReleaseStore

    return DockerReleaseStore(target)


def _tell(text: str) -> None:
    """Progress of what comes before any step: on stderr, as all progress is."""
    print(text, file=sys.stderr, flush=True)
