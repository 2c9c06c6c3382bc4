"""Gates for the tests of reports: simulated latencies, judged by the gate's own code."""

from __future__ import annotations

import functools
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from opsctl.bench import machine
from opsctl.bench.evidence import P50_BLOCK, PairEvidence
from opsctl.bench.external import Bounds, Metric
from opsctl.bench.figures import Record, arms_report, summary_ms
from opsctl.bench.gate import Judge
from opsctl.bench.report import GateReport, Verdict
from opsctl.bench.trace import ratio_traces
from opsctl.config.settings import Bench, Gate, PrometheusQuery

PAIRS_PER_S = 100.0
PATH = "/v1/models/m:predict"


@functools.cache
def measured(
    seconds: float,
    *,
    sizes: tuple[int, ...] = (1, 16),
    effect: float = 1.0,
    errors_each: int = 0,
    verdict: Verdict | None = None,
) -> dict[str, Any]:
    """The JSON of a gate whose candidate takes `effect` times as long; each `errors_each`-th of
    its requests fails (0: none). Without `verdict`, what the judge said last, or inconclusive."""
    random = np.random.default_rng(11)
    gate, record = Gate(), Record(sizes, 2)
    evidence = PairEvidence(gate, sizes)
    judge = Judge(gate, sizes, evidence)
    blocks: list[tuple[float, int]] = []
    said: Verdict | None = None
    for number in range(int(seconds * PAIRS_PER_S)):
        size = sizes[number % len(sizes)]
        first, second = (0.002 + 0.0004 * size) * random.lognormal(0.0, 0.2, 2)
        failed = bool(errors_each) and number % errors_each == 0
        pair = [float(first), math.inf if failed else float(second) * effect]
        record.add(size, number / PAIRS_PER_S, pair, ["", "HTTP 503" if failed else ""])
        if evidence.add(size, [pair[0]], [pair[1]]):
            blocks.append((number / PAIRS_PER_S, size))
            said = said or judge.look()
    chosen = verdict or said or Verdict("inconclusive", "power", "the evidence did not suffice")
    return _report(chosen, record, ratio_traces(judge, evidence, blocks), seconds)


@functools.cache
def with_values(seconds: float) -> dict[str, Any]:
    """As `measured`, with throughput and two queries to Prometheus: one no worse, one worse."""
    gate = dict(measured(seconds))
    rates = {"baseline": [1900.0, 2000.0, 2100.0], "candidate": [1850.0, 1990.0, 2080.0]}
    gate["throughput"] = {
        "batch_size": 16,
        "slice_s": 0.5,
        **{arm: {"instances_per_s": r[1], "slices": r} for arm, r in rates.items()},
    }
    random = np.random.default_rng(13)
    for name, effect in (("queue length", 1.0), ("memory", 1.6)):
        query = PrometheusQuery(name=name, query=f'{name.split()[0]}{{pod="{{replica}}"}}')
        metric = Metric(query, Bounds(0.08, 0.01, 0.03), compared=True)
        old, new = 50.0 * random.lognormal(0.0, 0.05, (2, 20))
        metric.take(old.tolist(), (effect * new).tolist())
        found = metric.report([15.0 * (moment + 1) for moment in range(20)])
        gate["metrics"] = {**gate["metrics"], metric.key: found}
    gate |= {
        "outcome": "fail",
        "reason": "the candidate is worse in memory (+60.0%)",
        "reason_kind": "regression",
        "deciding_metric": "prometheus:memory",
    }
    return gate


def first_deploy(seconds: float = 5.0) -> dict[str, Any]:
    """The JSON of a gate without a baseline."""
    random = np.random.default_rng(12)
    record = Record((1, 16), 1)
    for number in range(int(seconds * PAIRS_PER_S)):
        size = (1, 16)[number % 2]
        record.add(size, number / PAIRS_PER_S, [float(0.002 * random.lognormal(0, 0.2))], [""])
    kept = Verdict("pass", "slo", f"absolute limits kept over {record.rounds()} requests")
    return _report(kept, record, {}, seconds)


def _report(verdict: Verdict, record: Record, traces: Any, seconds: float) -> dict[str, Any]:
    data = {
        "started": 1_700_000_000.0,
        "seed": 4711,
        "machine": machine.fingerprint(),
        "bench": asdict(Bench(path=PATH)),
        "gate": asdict(Gate()),
        "warmup": {"seconds": 3.1, "rounds": 310, "settled": True},
        "planned": {},
        "seconds": seconds,
        "rounds": record.rounds(),
        "rounds_late": 7,
        "deciding_metric": verdict.metric,
        "lag_ms": summary_ms([0.0001, 0.0002, 0.004]),
        "cpu_percent": {
            "client": {"ran": 4.0, "waited": 0.5},
            "baseline": {"ran": 12.5, "waited": 1.0},
        },
        "reconnects": [0, 2],
        "block_times": [[number / 4, P50_BLOCK] for number in range(int(seconds * 4))],
        "batch_sizes": arms_report(record, 5.0, seconds),
        "metrics": traces,
    }
    return GateReport(verdict.outcome, verdict.reason, verdict.kind, data).to_dict()
