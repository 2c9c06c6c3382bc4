"""What the journal costs a rollout: less than 50 ms, by opsctl's own account and measured again.

The second measure writes the same records once more through the journal, on the same disk, with
the clock around it. The medians count, as a sync waits for whatever else the disk does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opsctl.clock import SystemClock
from opsctl.journal import Journal
from opsctl.storage_folder import FolderStorage
from scripts.campaigns._endings import newest_records
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import Candidate, Options, write

RUNS = 10
LIMIT_MS = 50.0


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Deploy once for each index, by a canary of several stages."""
    stages = [{"weight": weight, "hold_s": 0.1} for weight in (5, 25, 50)]
    options = Options(gate=False, overrides={"strategy": {"stages": stages}})
    opsctl = Opsctl(write(workdir / "project", options))
    bad = 0
    try:
        first = opsctl.run("deploy")
        if first.exit_code != 0:
            return {"ok": False, "why": first.stderr[-1500:]}
        for index in indexes:
            opsctl.project.change(Candidate("code"), f"{seed}-{index}")
            record = run_next(opsctl, index, workdir / f"again-{index}")
            emit(record)
            bad += not record["ok"]
    finally:
        left = opsctl.down()
    return {"ok": not left and not bad, "orphans": left}


def run_next(opsctl: Opsctl, index: int, again: Path) -> dict[str, Any]:
    """One deploy and both measures of its journal."""
    result = opsctl.run("deploy")
    records = newest_records(opsctl.project.state / "journal")
    own_ms = float(result.data.get("journal_ms") or 0.0)
    again_ms = rewrite_ms(records, again)
    wrong = []
    if result.exit_code != 0:
        wrong.append(f"deploy ended with {result.exit_code}")
    if own_ms <= 0:
        wrong.append("the result has no journal_ms")
    return {
        "index": index,
        "kind": f"{len(records)} records",
        "records": len(records),
        "own_ms": own_ms,
        "again_ms": round(again_ms, 2),
        "seconds": round(result.seconds, 3),
        "ok": not wrong,
        "why": "; ".join(wrong),
    }


def rewrite_ms(records: Sequence[dict[str, Any]], folder: Path) -> float:
    """Milliseconds to write `records` into a new journal in `folder`."""
    journal = Journal(FolderStorage(folder), SystemClock())
    began = time.perf_counter()
    for record in records:
        journal.append(record["kind"], record["data"])
    return (time.perf_counter() - began) * 1000


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians and worst."""
    figures: dict[str, Any] = {}
    for name in ("own_ms", "again_ms"):
        values = sorted(record[name] for record in records)
        figures[f"{name}_median"] = values[len(values) // 2]
        figures[f"{name}_max"] = values[-1]
    medians = figures["own_ms_median"], figures["again_ms_median"]
    return {**figures, "limit_ms": LIMIT_MS, "ok": max(medians) < LIMIT_MS}
