"""`deploys` on target `docker`: each candidate is an image, each replica a container."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import deploys
from tests.apps.project import Options
from tests.docker.bench_yard import host_or_skip
from tests.docker.docker_project import DockerOpsctl
from tests.docker.light_project import light_on

RUNS = 100

PATIENT = {"health": {"tries": 1200}}
"""A container takes a second to start where a process takes a tenth, and half a minute on a machine
that is very busy."""


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A first deploy, then one for each index."""
    host = host_or_skip()
    light = light_on(host, workdir / "project", Options(overrides=PATIENT), f"deploys-{seed}")
    plan = {index: deploys.choose(seed, index) for index in indexes}
    try:
        return deploys.run_chain(DockerOpsctl(light), seed, plan, emit)
    finally:
        host.remove_images(f"opsctl-test-{light.name}")


summarise = deploys.summarise
