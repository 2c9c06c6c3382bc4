"""From the judge's verdict to the gate's outcome: may these data decide anything? No I/O."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from opsctl.bench import stats
from opsctl.bench.gate import Judge, label
from opsctl.bench.report import Verdict
from opsctl.config import settings

LATE_SHARE_MAX = 0.25
"""Share of rounds that may have left late before nothing is decided."""

TAIL_FACTOR = 7
"""p99 needs about seven times as many pairs as p50 for the same ratio (simulated)."""

PERCENT = 100.0


@dataclass(frozen=True)
class Surroundings:
    """What happened around the pairs."""

    rounds: int
    alone: bool
    """No other gate ran on this machine."""
    late: int
    """Rounds set aside because the client sent them late (not in `rounds`)."""
    lag_p99_ms: float
    baseline_failures: Counter[str]
    baseline_requests: int
    candidate_failures: Counter[str]
    candidate_requests: int


def decide(gate: settings.Gate, around: Surroundings, verdict: Verdict | None) -> Verdict:
    """The outcome; `verdict` (what the evidence says, None: nothing) counts only if sound."""
    return (
        _no_answer(around)
        or _disturbed(gate, around)
        or _too_few(gate, around)
        or verdict
        or Verdict("inconclusive", "power", "the evidence did not suffice in the time given")
    )


def _no_answer(around: Surroundings) -> Verdict | None:
    candidate_answers = around.candidate_requests - around.candidate_failures.total()
    baseline_answers = around.baseline_requests - around.baseline_failures.total()
    if around.rounds and not candidate_answers and not baseline_answers:
        return Verdict(
            "no_data", "no_answer", f"no request was answered: {common(around.candidate_failures)}"
        )
    if around.baseline_requests and not baseline_answers:
        return Verdict(
            "no_data",
            "no_answer",
            f"the baseline answered no request: {common(around.baseline_failures)}",
        )
    return None


def _too_few(gate: settings.Gate, around: Surroundings) -> Verdict | None:
    if around.rounds >= gate.min_pairs:
        return None
    return Verdict(
        "no_data",
        "too_few",
        f"{around.rounds} rounds were measured, gate.min_pairs asks for {gate.min_pairs}",
    )


def common(failures: Counter[str]) -> str:
    """The most frequent error, for people."""
    return failures.most_common(1)[0][0] if failures else "no request was sent"


def _disturbed(gate: settings.Gate, around: Surroundings) -> Verdict | None:
    if not around.alone:
        return Verdict("inconclusive", "environment", "another gate ran on this machine")
    total = around.rounds + around.late
    if around.late > LATE_SHARE_MAX * total:
        return Verdict(
            "inconclusive",
            "environment",
            f"the load generator sent {around.late} of {total} rounds late "
            f"(p99 {around.lag_p99_ms:.1f} ms): the machine is too busy",
        )
    return _broken_baseline(gate, around)


def _broken_baseline(gate: settings.Gate, around: Surroundings) -> Verdict | None:
    """A baseline with errors of its own makes any candidate look good."""
    failed = around.baseline_failures.total()
    evidence = stats.log_e_rate(
        failed, 0, around.baseline_requests, gate.max_error_rate, above=True
    )
    if evidence < -math.log(gate.alpha):
        return None
    return Verdict(
        "inconclusive",
        "environment",
        f"the baseline itself failed {failed} of {around.baseline_requests} requests "
        f"({common(around.baseline_failures)})",
    )


def undecided(judge: Judge, sigmas: dict[int, float]) -> Verdict:
    """Why the budget ended without a verdict: too few pairs, or an effect between the margins.

    `sigmas` is the spread of log latency by batch size.
    """
    needed = pairs_needed(judge.gate, sigmas)
    open_metrics = [name for name in judge.names() if name not in judge.cleared]
    for name in open_metrics:
        size = name.partition(":")[2]
        have = judge.evidence.pairs_of(int(size)) if size else judge.evidence.pairs
        want = needed.get(name, 0)
        if have < want:
            return Verdict(
                "inconclusive",
                "power",
                f"{label(name)} has {have} pairs and needs about {want}: raise gate.budget_s or "
                "bench.rate_per_s, or widen the margins",
                name,
            )
    name = open_metrics[0]
    return Verdict(
        "inconclusive",
        "unsettled",
        f"{label(name)} of the candidate lies between what is tolerated and what is refused",
        name,
    )


def pairs_needed(gate: settings.Gate, sigmas: dict[int, float]) -> dict[str, int]:
    """Pairs that each metric needs until an equal candidate is proved good, about."""
    result: dict[str, int] = {}
    known = {size: sigma for size, sigma in sigmas.items() if math.isfinite(sigma)}
    for size, sigma in known.items():
        if "p50" in gate.metrics and gate.refused_p50_percent > 0:
            result[f"p50:{size}"] = stats.pairs_to_see(
                gate.refused_p50_percent / PERCENT, 0.0, sigma, gate.beta
            )
    if known and "p99" in gate.metrics and gate.refused_p99_percent > 0:
        pairs = stats.pairs_to_see(
            gate.refused_p99_percent / PERCENT, 0.0, min(known.values()), gate.beta
        )
        result["p99"] = TAIL_FACTOR * pairs
    if "errors" in gate.metrics and 0 < gate.refused_error_rate < 1:
        result["errors"] = error_pairs(gate.refused_error_rate, gate.beta)
    return result


def error_pairs(refused_rate: float, beta: float) -> int:
    """Pairs without an error after which `refused_rate` more errors are ruled out."""
    low, high = 1, 2
    while stats.log_e_rate(0, 0, high, refused_rate, above=False) < -math.log(beta):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        enough = stats.log_e_rate(0, 0, middle, refused_rate, above=False) >= -math.log(beta)
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
