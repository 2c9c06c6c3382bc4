"""Many gates over loopback against two real copies of a server: equal, and 10 % slower.

    scripts/bench live [--runs N] [--seed N] [--bursts]

A JSON line a run, then a summary. With --bursts a neighbour takes one CPU in bursts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from opsctl import bench
from opsctl.config import settings
from tests.bench.server import Behaviour, running

SERVICE_MS = 1.0
EFFECT = 1.10

LOAD = settings.Bench(path="/", body={"a": 1}, batch_sizes=(1,), rate_per_s=100.0)
GATE = settings.Gate(budget_s=240.0)

MEDIAN_S = 30.0
"""The bar on the time to a verdict."""

HOG = """
import random, sys, time, os
os.sched_setaffinity(0, {int(sys.argv[1])})
chance = random.Random(int(sys.argv[2]))
while os.getppid() == int(sys.argv[3]):
    time.sleep(chance.expovariate(1 / 3.0))
    end = time.monotonic() + chance.expovariate(1 / 1.5)
    while time.monotonic() < end:
        pass
"""
"""A neighbour that works for 1.5 s of each 4.5 s on average; it ends with its parent."""


@contextmanager
def neighbour(cpu: int, seed: int, *, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    argv = [sys.executable, "-c", HOG, str(cpu), str(seed), str(os.getpid())]
    process = subprocess.Popen(argv)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def gate_once(effect: float, seed: int) -> bench.GateReport:
    """One gate; both arms share the last CPU, the client has the first."""
    cpus = sorted(os.sched_getaffinity(0))
    equal = Behaviour(service_ms=SERVICE_MS, cpus=(cpus[-1],))
    with running(equal) as old, running(replace(equal, service_ms=effect * SERVICE_MS)) as new:
        asked = bench.GateRequest(
            old.endpoint, new.endpoint, LOAD, GATE, Path(), seed, (cpus[0],),
            old.process.pid, new.process.pid,
        )  # fmt: skip
        return bench.run_gate(asked, tell=lambda line: None, interrupt=lambda: None)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench live", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="gates of each kind")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--bursts", action="store_true", help="a neighbour on the arms' CPU")
    options = parser.parse_args(argv)
    results: dict[str, list[bench.GateReport]] = {"equal": [], "slower": []}
    with neighbour(max(os.sched_getaffinity(0)), options.seed, wanted=options.bursts):
        for index in range(2 * options.runs):
            kind, effect = (("equal", 1.0), ("slower", EFFECT))[index % 2]
            report = gate_once(effect, options.seed + index)
            results[kind].append(report)
            line = {
                "run": index,
                "kind": kind,
                "outcome": report.outcome,
                "reason": report.reason,
                "seconds": round(report.data["seconds"], 2),
                "ratio": report.data["metrics"]["p50:1"].get("ratio"),
                "late": report.data["rounds_late"],
                "cpu_percent": report.data["cpu_percent"],
            }
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    summary = summarised(results, bursts=options.bursts)
    sys.stdout.write(json.dumps({"seed": options.seed, **summary}) + "\n")
    return 0 if summary["ok"] else 1


def summarised(results: dict[str, list[bench.GateReport]], *, bursts: bool) -> dict[str, object]:
    """Counts and times. Bursts allow an inconclusive end with a reason, never a wrong one."""
    counts = {
        kind: {
            outcome: sum(report.outcome == outcome for report in reports)
            for outcome in ("pass", "fail", "inconclusive", "no_data")
        }
        for kind, reports in results.items()
    }
    seconds = [report.data["seconds"] for reports in results.values() for report in reports]
    median = statistics.median(seconds)
    sound = counts["equal"]["fail"] == 0
    right = counts["slower"]["fail"] == len(results["slower"]) and median <= MEDIAN_S
    return {"bursts": bursts, **counts, "median_s": median, "ok": sound and (bursts or right)}
