"""`rollback` on target `kubernetes`, to a warm release: at most 2 s from the start of the command
to the sending of the last request that the bad release answers, kept-alive connections included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns import rollback
from scripts.campaigns._kube import routed, service_in
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import CANDIDATES, Options

RUNS = 40
WARM_MAX_S = 2.0
OPTIONS = Options(replicas=2, gate=False)


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Deploy and roll back again and again: by the Service at even indexes, by a route at odd."""
    by_way = {way: [i for i in indexes if i % 2 == way] for way in (0, 1)}
    bad = 0
    for way, chosen in by_way.items():
        folder = workdir / str(way)
        folder.mkdir()
        with service_in(folder, OPTIONS) as opsctl:
            if way == 0:
                bad += run_chain(opsctl, seed, chosen, emit)
                continue
            with routed(opsctl, folder) as behind:
                bad += run_chain(behind, seed, chosen, emit)
    return {"ok": not bad}


def run_chain(
    opsctl: Opsctl, seed: int, chosen: Sequence[int], emit: Callable[[dict[str, Any]], None]
) -> int:
    """One deploy and its rollback for each index; how many went wrong."""
    bad = 0
    if not chosen:
        return bad
    opsctl.project.change(CANDIDATES["code"], f"{seed}-first")
    rollback.deploy(opsctl)
    for index in chosen:
        old = str(opsctl.status()["serving_release"])
        opsctl.project.change(CANDIDATES["code"], f"{seed}-{index}")
        new = rollback.deploy(opsctl)
        record = rollback.roll_back(opsctl, new, old, WARM_MAX_S)
        emit({"index": index, "kind": "route" if index % 2 else "selector", **record})
        bad += not record["ok"]
    return bad


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst of each way."""
    return rollback.summarise(records, ("selector", "route"))
