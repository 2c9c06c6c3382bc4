"""`kills` with the real TensorFlow service and its whole gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import kills
from scripts.campaigns._opsctl import Opsctl
from scripts.campaigns.real_deploys import MODELS
from tests.apps.anomaly import CANDIDATES, write

RUNS = 10
REAL = kills.Range(("code", "model", "wrong_value"), "code", ("wrong_value",), 40.0)


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Kill deploys of the anomaly service."""
    chosen = {index: kills.choose(seed, index, REAL) for index in indexes}
    return kills.run_chain(kills.Chain(begin, CANDIDATES, workdir, seed), chosen, emit)


def begin(folder: Path) -> Opsctl:
    """The anomaly service, with its first release serving."""
    return kills.deploy_first(Opsctl(write(folder, MODELS)))


summarise = kills.summarise
