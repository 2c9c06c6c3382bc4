"""`real_kills` on target `docker`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.campaigns import docker_kills, kills, real_kills
from scripts.campaigns._opsctl import Opsctl
from scripts.campaigns.real_deploys import MODELS
from tests.apps.anomaly import CANDIDATES
from tests.docker.bench_yard import host_or_skip
from tests.docker.real_project import anomaly_on
from tests.images.yard import yard_or_skip

RUNS = real_kills.RUNS
RANGE = replace(real_kills.REAL, deploy_s=60.0)
"""A build and a container's start come on top."""


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Kill deploys of the anomaly service."""
    host, yard = host_or_skip(), yard_or_skip()
    chosen = {index: docker_kills.choose(seed, index, RANGE) for index in indexes}

    def begin(folder: Path) -> Opsctl:
        name = f"real-kills-{seed}-{folder.name}"
        return kills.deploy_first(anomaly_on(host, yard, folder, MODELS, name))

    return kills.run_chain(kills.Chain(begin, CANDIDATES, workdir, seed), chosen, emit)


summarise = kills.summarise
