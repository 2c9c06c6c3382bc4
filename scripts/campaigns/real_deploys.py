"""`deploys` with the real TensorFlow service and its whole gate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import deploys
from scripts.campaigns._opsctl import ROOT, Opsctl
from tests.apps.anomaly import BAD, GOOD, write
from tests.apps.project import Candidate

RUNS = 10
MODELS = ROOT / "build" / "campaigns" / "models"


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A first deploy, then one for each index."""
    opsctl = Opsctl(write(workdir / "project", MODELS))
    plan = {index: choose(seed, index) for index in indexes}
    return deploys.run_chain(opsctl, seed, plan, emit)


def choose(seed: int, index: int) -> Candidate:
    """Good candidates at even indexes, bad ones at odd; every kind comes within six runs."""
    kinds = list(GOOD if index % 2 == 0 else BAD)
    random.Random(f"{seed}:{index // 6}").shuffle(kinds)
    return kinds[index // 2 % len(kinds)]


summarise = deploys.summarise
