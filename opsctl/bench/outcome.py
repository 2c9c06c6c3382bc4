"""From the judge's verdict to the gate's outcome: may these data decide anything? No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsctl.bench import stats
from opsctl.bench.evidence import rule_of
from opsctl.bench.gate import Judge, label
from opsctl.bench.report import Verdict
from opsctl.config import settings

LATE_SHARE_MAX = 0.25
"""Share of rounds that may have left late before nothing is decided."""

WAIT_MIN = 0.1
"""Waiting (a second that an arm runs) that is too little to matter, in seconds."""

WAIT_RATIO_MAX = 1.5
"""How much longer one arm may wait than the other."""

TAIL_FACTOR = 7
"""p99 needs about seven times as many pairs as p50 for the same ratio (simulated)."""

PERCENT = 100.0


@dataclass(frozen=True)
class Share:
    """An arm's CPU in percent of one core: that it ran on, and that it waited for."""

    ran: float
    waited: float

    @property
    def wait(self) -> float:
        """Seconds of waiting for each second of running."""
        return self.waited / self.ran

    def starved_beside(self, other: Share) -> bool:
        """Whether it waited much longer, a request and also a second of running."""
        return (
            self.waited > WAIT_RATIO_MAX * other.waited and self.wait > WAIT_RATIO_MAX * other.wait
        )


@dataclass(frozen=True)
class Surroundings:
    """What happened around the pairs."""

    rounds: int
    alone: bool
    """No other gate ran on this machine."""
    late: int
    """Rounds set aside because the client sent them late (not in `rounds`)."""
    lag_p99_ms: float
    cpu: tuple[Share, Share] | None
    """Of baseline and candidate; None where it can't be told."""
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
        or _unequal(gate, around, verdict)
        or _hidden(gate, around, verdict)
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
    return (
        _not_alone(alone=around.alone)
        or _late(around.late, around.rounds + around.late, around.lag_p99_ms)
        or _failing("the baseline itself", gate, around.baseline_failures, around.baseline_requests)
    )


def _not_alone(*, alone: bool) -> Verdict | None:
    if alone:
        return None
    return Verdict("inconclusive", "environment", "another gate ran on this machine")


def _late(late: int, total: int, lag_p99_ms: float) -> Verdict | None:
    if late <= LATE_SHARE_MAX * total:
        return None
    return Verdict(
        "inconclusive",
        "environment",
        f"the load generator sent {late} of {total} rounds late "
        f"(p99 {lag_p99_ms:.1f} ms): the machine is too busy",
    )


def _failing(
    who: str, gate: settings.Gate, failures: Counter[str], requests: int
) -> Verdict | None:
    """An arm that is proved to fail more often than it may: as a baseline it makes any candidate
    look good, and on its own its latencies are those of its failures."""
    failed = failures.total()
    evidence = stats.log_e_rate(failed, 0, requests, gate.max_error_rate, above=True)
    if evidence < -math.log(gate.alpha):
        return None
    return Verdict(
        "inconclusive",
        "environment",
        f"{who} failed {failed} of {requests} requests ({common(failures)})",
    )


@dataclass(frozen=True)
class Stretch:
    """Load of one batch size on one arm. `late`: requests that the client sent late."""

    batch_size: int
    requests: int
    failures: Counter[str]
    late: int
    lag_p99_ms: float


def flaw(gate: settings.Gate, stretches: Sequence[Stretch], *, alone: bool) -> Verdict | None:
    """Why a measurement of one arm is worth nothing; None when it is sound. `alone`: no gate ran
    beside it."""
    for one in stretches:
        if one.failures.total() == one.requests:
            said = f"no request of batch size {one.batch_size} was answered: {common(one.failures)}"
            return Verdict("no_data", "no_answer", said)
    found = (
        _late(one.late, one.requests, one.lag_p99_ms)
        or _failing("the release", gate, one.failures, one.requests)
        for one in stretches
    )
    return _not_alone(alone=alone) or next((one for one in found if one is not None), None)


def broken(report: Mapping[str, Any]) -> str:
    """Why a stored report's latencies are of no use: nobody answered, or the machine disturbed
    them; empty when they are. What was merely too little to decide is sound."""
    kind = report.get("reason_kind")
    # Values that Prometheus did not have say nothing against the latencies beside them.
    unanswered = kind == "no_answer" and not report.get("deciding_metric")
    return str(report.get("reason", "")) if unanswered or kind == "environment" else ""


def _unequal(gate: settings.Gate, around: Surroundings, verdict: Verdict | None) -> Verdict | None:
    """Copies of one release that get unequal CPU differ like a regression does. A slower release
    on an equal share does not: it waits no longer for each second that it runs. What waiting
    can't explain, as the margins are wider, it does not spoil."""
    if around.cpu is None or verdict is None:
        return None
    baseline, candidate = around.cpu
    favoured, starved = (
        (baseline, candidate) if verdict.outcome == "fail" else (candidate, baseline)
    )
    rules = [rule_of(metric, gate) for metric in ("p50", "p99") if metric in gate.metrics]
    margins = [(r.tolerated if verdict.outcome == "fail" else r.refused) - 1.0 for r in rules]
    explained = starved.wait - favoured.wait > min(margins, default=0.0)
    if starved.wait < WAIT_MIN or not explained or not starved.starved_beside(favoured):
        return None
    return Verdict(
        "inconclusive",
        "environment",
        f"the arms got unequal CPU: for each second that it ran, the baseline waited "
        f"{baseline.wait:.2f} s and the candidate {candidate.wait:.2f} s; pin both to the same "
        "CPUs",
    )


def _hidden(gate: settings.Gate, around: Surroundings, verdict: Verdict | None) -> Verdict | None:
    """Waiting for a CPU is in both arms' latency and thins out what differs between them. A pass
    is worth nothing once what must be refused would measure as less than what is tolerated."""
    if verdict is None or verdict.outcome != "pass" or around.cpu is None:
        return None
    allowed = math.inf
    for metric in {"p50", "p99"} & set(gate.metrics):
        rule = rule_of(metric, gate)
        if rule.tolerated > 1.0:
            allowed = min(allowed, (rule.refused - 1.0) / (rule.tolerated - 1.0) - 1.0)
    wait = max(share.wait for share in around.cpu)
    if wait <= allowed:
        return None
    return Verdict(
        "inconclusive",
        "environment",
        f"the arms waited {wait:.1f} s for a CPU for each second that they ran, which "
        f"hides slowdowns (at most {allowed:.1f} s with these margins): the machine is too busy",
    )


def undecided(judge: Judge, sigmas: dict[int, float], ratios: dict[str, float | None]) -> Verdict:
    """Why the budget ended without a verdict: too few pairs, or an effect between the margins.

    `sigmas` is the spread of log latency by batch size, `ratios` the measured ratio by metric.
    """
    needed = pairs_needed(judge.gate, sigmas)
    open_metrics = [name for name in judge.names() if name not in judge.cleared]
    for name in open_metrics:
        if _between(judge.gate, name, ratios.get(name)):
            return Verdict(
                "inconclusive",
                "unsettled",
                f"{label(name)} changed by {(ratios[name] or 1.0) - 1.0:+.1%}, between what is "
                "tolerated and what is refused",
                name,
            )
    name = open_metrics[0]
    size = name.partition(":")[2]
    have = judge.evidence.pairs_of(int(size)) if size else judge.evidence.pairs
    return Verdict(
        "inconclusive",
        "power",
        f"{label(name)} is open after {have} pairs (about {needed.get(name, have)} were planned): "
        "raise gate.budget_s or bench.rate_per_s, or widen the margins",
        name,
    )


def _between(gate: settings.Gate, name: str, ratio: float | None) -> bool:
    """Whether a measured ratio lies where neither verdict is due."""
    metric = name.partition(":")[0]
    if metric not in ("p50", "p99") or ratio is None:
        return False
    rule = rule_of(metric, gate)
    return rule.tolerated <= ratio <= rule.refused


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
            gate.refused_p99_percent / PERCENT, 0.0, min(known.values()), gate.beta_p99
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
