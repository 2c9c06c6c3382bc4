"""Many gates over loopback against two real copies of the sample service: equal, and 10 % slower.

    scripts/bench live [--runs N] [--seed N] [--bursts] [--budget S] [--synthetic]

A line a gate, then a summary with the bars. A regression is confirmed by a second measurement with
fresh processes, as `deploy` does; the time to a verdict is that of the first. Stopped by Ctrl-C (or
anything else), the same command with the same --seed goes on where it was: each gate is kept in
build/live/. With --bursts a neighbour takes the arms' CPU in bursts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from opsctl import bench
from opsctl.config import settings
from opsctl.model import Json
from tests.bench import sample
from tests.bench.kept import BUILD, Kept, Stop, add_seed, code_of, codes
from tests.bench.server import Behaviour, Served, running

SERVICE_MS = 1.0
SLOWER = 0.10

KINDS = {"equal": 0.0, "slower": SLOWER}

SAMPLE = settings.Bench(
    path="/v1/models/anomaly:predict",
    requests_file="requests.jsonl",
    batch_sizes=(1,),
    rate_per_s=100.0,
)
SYNTHETIC = settings.Bench(path="/", body={"a": 1}, batch_sizes=(1,), rate_per_s=100.0)

BUDGET_S = 240.0
"""The longest measurement of one gate."""

MEDIAN_S = 30.0
"""The bar on the time to a verdict."""

CONFIRMED_BY = 1_000_000
"""Added to a gate's seed for its second measurement."""

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


@contextmanager
def arm(slower: float, cpus: tuple[int, ...], model: Path | None) -> Iterator[Served]:
    """The sample service with this model, or without one the synthetic server."""
    if model is not None:
        with sample.serving(model, slower, cpus) as served:
            yield served
        return
    with running(Behaviour(service_ms=SERVICE_MS * (1.0 + slower), cpus=cpus)) as served:
        yield served


@dataclass(frozen=True)
class Ask:
    """One gate: how much slower the candidate is, and with what it is measured."""

    slower: float
    seed: int
    budget_s: float
    model: Path | None


def gate_once(ask: Ask, interrupt: Callable[[], None]) -> Json:
    """One gate, and as in a deploy a second one with fresh processes to confirm a regression."""
    first = measured(ask, interrupt)
    if first["outcome"] != "fail":
        return first
    again = measured(replace(ask, seed=ask.seed + CONFIRMED_BY), interrupt)
    first["whole_s"] = round(first["whole_s"] + again["whole_s"], 1)
    if again["outcome"] == "fail":
        return first
    reason = f"not confirmed: {first['reason']}; then {again['reason']}"
    return {**first, "outcome": "inconclusive", "kind_of_reason": "unconfirmed", "reason": reason}


def measured(ask: Ask, interrupt: Callable[[], None]) -> Json:
    """One measurement; both arms share the last CPU, the client has the first."""
    cpus = sorted(os.sched_getaffinity(0))
    load = SAMPLE if ask.model is not None else SYNTHETIC
    shared = (cpus[-1],)
    began = time.monotonic()
    with arm(0.0, shared, ask.model) as old, arm(ask.slower, shared, ask.model) as new:
        asked = bench.GateRequest(
            old.endpoint,
            new.endpoint,
            load,
            replace(settings.Gate(), budget_s=ask.budget_s),
            ask.model or Path(),
            ask.seed,
            (cpus[0],),
            old.process.pid,
            new.process.pid,
        )
        report = bench.run_gate(asked, tell=lambda line: None, interrupt=interrupt)
    data = report.data
    return {
        "outcome": report.outcome,
        "kind_of_reason": report.reason_kind,
        "reason": report.reason,
        "seconds": round(data["seconds"], 2),
        "whole_s": round(time.monotonic() - began, 1),
        "rate_per_s": round(data["planned"]["rounds_per_s"], 1),
        "p50_ms": data["batch_sizes"]["1"]["baseline"]["p50_ms"],
        "ratio": data["metrics"]["p50:1"].get("ratio"),
        "late": data["rounds_late"],
        "lag_ms": data["lag_ms"],
        "cpu_percent": data["cpu_percent"],
    }


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=40, help="gates of each kind")
    add_seed(parser)
    parser.add_argument("--bursts", action="store_true", help="a neighbour on the arms' CPU")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds a gate, at most")
    parser.add_argument("--synthetic", action="store_true", help="a server of 1 ms, no TensorFlow")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    options = parse(argv)
    model = None if options.synthetic else sample.trained_model()
    kept = campaign(options)
    stop = Stop()
    done = kept.read()
    total = 2 * options.runs
    sys.stderr.write(f"seed {options.seed}; kept in {kept.path}; {len(done)} of {total} done\n")
    try:
        with neighbour(max(os.sched_getaffinity(0)), options.seed, wanted=options.bursts):
            for index in range(len(done), total):
                kind = list(KINDS)[index % 2]
                stop.interrupt()
                ask = Ask(KINDS[kind], options.seed + index, options.budget, model)
                found = gate_once(ask, stop.interrupt)
                done.append(kept.add({"run": index, "kind": kind, **found}))
                sys.stderr.write(f"{shown(done[-1], total)}\n")
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; go on with: scripts/bench live {' '.join(again(options))}\n")
        return 130
    summary = summarised(done, bursts=options.bursts)
    sys.stdout.write(json.dumps({"seed": options.seed, **summary}) + "\n")
    return 0 if summary["ok"] else 1


def campaign(options: argparse.Namespace) -> Kept:
    """Where the gates of these options are kept."""
    service = "synthetic" if options.synthetic else "sample"
    bursts = "-bursts" if options.bursts else ""
    name = f"{service}{bursts}-{options.seed}-{options.budget:g}s.jsonl"
    return Kept(BUILD / "live" / name, code_of("opsctl/bench"))


def again(options: argparse.Namespace) -> list[str]:
    """The arguments that go on with a campaign."""
    flags = [f"--{name}" for name in ("bursts", "synthetic") if getattr(options, name)]
    return ["--runs", str(options.runs), "--seed", str(options.seed), "--budget",
            f"{options.budget:g}", *flags]  # fmt: skip


def shown(found: Json, total: int) -> str:
    """One gate for people."""
    ratio = found["ratio"]
    much = "?" if ratio is None else f"{100.0 * (ratio - 1.0):+.1f} %"
    return (
        f"{found['run'] + 1:3d}/{total} {found['kind']:6} {found['outcome']:12} "
        f"{found['seconds']:6.1f} s  p50 {much}  {found['reason']}"
    )


def summarised(done: Sequence[Json], *, bursts: bool) -> Json:
    """Counts and times. Bursts allow an inconclusive end with a reason, never a wrong one."""
    counts = {
        kind: {
            outcome: sum(one["kind"] == kind and one["outcome"] == outcome for one in done)
            for outcome in ("pass", "fail", "inconclusive", "no_data")
        }
        for kind in KINDS
    }
    medians = {
        kind: statistics.median([one["seconds"] for one in done if one["kind"] == kind] or [0.0])
        for kind in KINDS
    }
    median = statistics.median([one["seconds"] for one in done] or [0.0])
    slower = sum(one["kind"] == "slower" for one in done)
    sound = bool(done) and counts["equal"]["fail"] == 0
    right = counts["slower"]["fail"] == slower and median <= MEDIAN_S
    return {
        "bursts": bursts,
        "code": codes(done),
        **counts,
        "median_s": median,
        "median_equal_s": medians["equal"],
        "median_slower_s": medians["slower"],
        "ok": sound and (bursts or right),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
