"""`deploys` on target `kubernetes`, watched from inside the cluster too: by turns traffic is shared
by replicas and by a Gateway."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import deploys
from scripts.campaigns._kube import routed, service_in, watch
from tests.apps.project import CANDIDATES, Candidate, Options

RUNS = 60
STRETCH = 10
"""Runs in a row with traffic in one of the two ways."""

GOOD = ("code",)
"""A service that ignores SIGTERM cuts the connections that users keep alive: nothing stands between
them and a pod but a Service."""

BAD = ("exits_at_start", "health_500", "hangs_at_start", "dies", "wrong_value", "leaks")
PATIENT = {"health": {"interval_s": 1.0, "tries": 60}}
"""A candidate that hangs is waited for that long; a good one is up in a few seconds."""

OPTIONS = Options(replicas=2, gate=False, overrides=PATIENT)


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """For each stretch a service of its own: a first deploy, then one for each index."""
    whole: dict[str, Any] = {"ok": True}
    for stretch in sorted({index // STRETCH for index in indexes}):
        plan = {i: choose(seed, i) for i in indexes if i // STRETCH == stretch}
        folder = workdir / str(stretch)
        folder.mkdir()
        ended = run_stretch(seed, plan, folder, emit)
        whole = {"ok": whole["ok"] and ended["ok"], **{k: v for k, v in ended.items() if k != "ok"}}
    return whole


def run_stretch(
    seed: int,
    plan: dict[int, Candidate],
    folder: Path,
    emit: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """The deploys of one stretch, all with traffic in the same way."""
    way = "route" if min(plan) // STRETCH % 2 else "selector"

    def keep(record: dict[str, Any]) -> None:
        emit({**record, "traffic": way})

    with service_in(folder, OPTIONS) as opsctl:
        if way == "selector":
            return deploys.run_chain(opsctl, seed, plan, keep, watch)
        with routed(opsctl, folder) as behind:
            return deploys.run_chain(behind, seed, plan, keep, watch)


def choose(seed: int, index: int) -> Candidate:
    """Good candidates at even indexes, bad ones at odd; every kind comes within twelve runs."""
    kinds = list(GOOD if index % 2 == 0 else BAD)
    random.Random(f"{seed}:{index // (2 * len(kinds))}").shuffle(kinds)
    return CANDIDATES[kinds[index // 2 % len(kinds)]]


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of the whole, and failed requests by way."""
    failed = {
        way: sum(r["failed_requests"] for r in records if r["traffic"] == way)
        for way in ("selector", "route")
    }
    return {**deploys.summarise(records), "failed_by_way": failed}
