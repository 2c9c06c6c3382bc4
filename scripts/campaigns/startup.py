"""How long the light commands take, side by side with `python -c pass`.

`--help` and `version` at most 5 times as long, `status` of a running service at most 10 times.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opsctl import shell
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import Options, write

RUNS = 25
LIMITS = {"--help": 5.0, "version": 5.0, "status": 10.0}
"""Times of `python -c pass`."""

PYTHON = Path(sys.executable)
BASELINE = "python -c pass"


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """One round for each index: every command once, in turn."""
    opsctl = Opsctl(write(workdir / "project", Options(gate=False)))
    try:
        deployed = opsctl.run("deploy")
        if deployed.exit_code != 0:
            return {"ok": False, "why": deployed.stderr[-1500:]}
        round_of(opsctl)  # the first one reads the disk and writes byte code
        for index in indexes:
            times = round_of(opsctl)
            emit({"index": index, "ok": True, "seconds": sum(times.values()), "times_s": times})
    finally:
        left = opsctl.down()
    return {"ok": not left, "orphans": left}


def round_of(opsctl: Opsctl) -> dict[str, float]:
    """Seconds of each command."""
    project = opsctl.project
    installed = str(PYTHON.with_name("opsctl"))
    commands = {
        BASELINE: [sys.executable, "-c", "pass"],
        "--help": [installed, "--help"],
        "version": [installed, "version"],
        "status": [installed, "status", "-c", str(project.config)],
    }
    times = {}
    for name, argv in commands.items():
        began = time.perf_counter()
        done = shell.run(argv, timeout_s=60, cwd=project.root, env=opsctl.env())
        times[name] = time.perf_counter() - began
        if not done.ok:
            raise RuntimeError(f"{' '.join(argv)}: {done.why}")
    return times


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians, and how many times the baseline they are."""
    medians = {
        name: statistics.median(record["times_s"][name] for record in records)
        for name in (BASELINE, *LIMITS)
    }
    ratios = {name: round(medians[name] / medians[BASELINE], 2) for name in LIMITS}
    return {
        "median_ms": {name: round(value * 1000, 1) for name, value in medians.items()},
        "times_baseline": ratios,
        "limits": LIMITS,
        "ok": all(ratios[name] <= limit for name, limit in LIMITS.items()),
    }
