"""`real_deploys` on target `docker`: each deploy builds a candidate upon TensorFlow's image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import deploys, real_deploys
from tests.docker.bench_yard import host_or_skip
from tests.docker.real_project import anomaly_on
from tests.images.yard import yard_or_skip

RUNS = real_deploys.RUNS


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A first deploy, then one for each index."""
    folder, name = workdir / "project", f"real-deploys-{seed}"
    opsctl = anomaly_on(host_or_skip(), yard_or_skip(), folder, real_deploys.MODELS, name)
    plan = {index: real_deploys.choose(seed, index) for index in indexes}
    return deploys.run_chain(opsctl, seed, plan, emit)


summarise = deploys.summarise
