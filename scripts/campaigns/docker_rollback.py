"""`rollback` on target `docker`, within the same limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import rollback
from scripts.campaigns.docker_deploys import PATIENT
from scripts.campaigns.rollback import Bench, service_start_s
from tests.apps.project import LightProject, Options
from tests.docker.bench_yard import Host, host_or_skip
from tests.docker.docker_project import DockerOpsctl
from tests.docker.light_project import DockerLight, light_on

RUNS = rollback.RUNS


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Deploy and roll back again and again: warm at even indexes, cold at odd ones."""
    host = host_or_skip()
    options = Options(gate=False, overrides=PATIENT)
    chain = light_on(host, workdir / "project", options, f"rollback-{seed}")
    try:
        bench = Bench(chain, command_of, start_s)
        return rollback.run_chain(bench, seed, indexes, emit)
    finally:
        host.remove_images(f"opsctl-test-{chain.name}")


def command_of(project: LightProject) -> DockerOpsctl:
    """opsctl for the service of `project`."""
    assert isinstance(project, DockerLight)
    return DockerOpsctl(project)


def start_s(project: LightProject) -> float:
    """The service's own start, and that of a container that does nothing."""
    assert isinstance(project, DockerLight)
    return service_start_s(project) + _container_s(project.host)


def _container_s(host: Host) -> float:
    api = host.engine.api
    began = time.monotonic()
    made = api.create_container(host.app_image(), ["/bin/true"])["Id"]
    try:
        api.start(made)
        api.wait(made)
        return time.monotonic() - began
    finally:
        api.remove_container(made, force=True)


summarise = rollback.summarise
