"""The gate's rules: what may be decided from the pairs seen so far. No I/O, no clock.

A `Judge` is fed pairs in the order in which they were scheduled and looks after every full block.
A fail needs evidence of a slowdown beyond what is tolerated; a pass needs evidence against the
slowdown that must be refused; anything else is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opsctl.bench import stats
from opsctl.bench.report import Verdict
from opsctl.bench.stats import Floats, Sums
from opsctl.config import settings

P50_BLOCK = 25
"""Pairs ranked together for p50: small enough that a burst of noise spoils few, yet 50 ranks."""

P99_BLOCK = 400
"""Pairs ranked together for p99: its best hundredth are then the 8 slowest of 800."""

P50_MIXTURE = 0.1
P99_MIXTURE = 0.15
"""Prior variances of lambda (simulated: the fastest that keep power at 5 % and 10 %)."""

P50_WEIGHT = 0.6
P99_WEIGHT = 0.3
ERROR_WEIGHT = 0.1
"""Shares of alpha; p50's is split evenly over the batch sizes. Metrics left out give theirs up."""

MIN_PAIRS_A_SIZE = 100
"""Least pairs of each batch size before a verdict."""

TAIL_SIZES = 2
"""How many of the smallest batch sizes go on for p99 and errors when every p50 is decided."""

PERCENT = 100.0


@dataclass(frozen=True)
class Rule:
    """One metric's margins as ratios, its block and its prior."""

    quantile: float
    block: int
    mixture: float
    tolerated: float
    refused: float


def rule_of(metric: str, gate: settings.Gate) -> Rule:
    """The rule of `p50` or `p99` with the margins of opsctl.yaml."""
    if metric == "p50":
        low, high = gate.tolerated_p50_percent, gate.refused_p50_percent
        return Rule(0.5, P50_BLOCK, P50_MIXTURE, 1 + low / PERCENT, 1 + high / PERCENT)
    low, high = gate.tolerated_p99_percent, gate.refused_p99_percent
    return Rule(0.99, P99_BLOCK, P99_MIXTURE, 1 + low / PERCENT, 1 + high / PERCENT)


@dataclass
class Track:
    """Blocks of one batch size under one rule, with the sums at both margins."""

    rule: Rule
    baseline: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    used: int = 0
    at_tolerated: Sums = field(default_factory=Sums)
    at_refused: Sums = field(default_factory=Sums)

    def add(self, baseline: Sequence[float], candidate: Sequence[float]) -> bool:
        """Take pairs in; True when at least one block became full."""
        self.baseline.extend(baseline)
        self.candidate.extend(candidate)
        blocks = (len(self.baseline) - self.used) // self.rule.block
        if blocks:
            self._score(blocks, self.rule.block)
        return blocks > 0

    def close(self) -> None:
        """Score the last, short block. The clock ended it, not a value, so it stays fair."""
        rest = len(self.baseline) - self.used
        if rest * 2 * (1.0 - self.rule.quantile) >= 1.0:
            self._score(1, rest)

    def _score(self, blocks: int, size: int) -> None:
        rows = slice(self.used, self.used + blocks * size)
        first: Floats = np.array(self.baseline[rows]).reshape(blocks, size)
        second: Floats = np.array(self.candidate[rows]).reshape(blocks, size)
        for sums, ratio in (
            (self.at_tolerated, self.rule.tolerated),
            (self.at_refused, self.rule.refused),
        ):
            sums.add(stats.differences(first, second, ratio, self.rule.quantile).ravel())
        self.used += blocks * size


@dataclass
class Failures:
    """Errors by pair: which arm they hit."""

    pairs: int = 0
    candidate_only: int = 0
    baseline_only: int = 0
    both: int = 0

    def add(self, baseline: Sequence[float], candidate: Sequence[float]) -> None:
        for first, second in zip(baseline, candidate, strict=True):
            self.pairs += 1
            self.candidate_only += math.isinf(second) and not math.isinf(first)
            self.baseline_only += math.isinf(first) and not math.isinf(second)
            self.both += math.isinf(first) and math.isinf(second)


class Judge:
    """Evidence of one gate. Latencies are seconds; an error is `math.inf`."""

    def __init__(self, gate: settings.Gate, batch_sizes: Sequence[int]) -> None:
        self.gate = gate
        self.batch_sizes = tuple(sorted(set(batch_sizes)))
        self.metrics = frozenset(gate.metrics)
        self.medians = {size: Track(rule_of("p50", gate)) for size in self.batch_sizes}
        self.tails = {size: Track(rule_of("p99", gate)) for size in self.batch_sizes}
        self.failures = Failures()
        self.cleared: dict[str, int] = {}
        """Metrics proved good, with the number of pairs at which they were."""

    @property
    def pairs(self) -> int:
        return self.failures.pairs

    def pairs_of(self, size: int) -> int:
        return len(self.medians[size].baseline)

    def add(
        self, size: int, baseline: Sequence[float], candidate: Sequence[float]
    ) -> Verdict | None:
        """Take pairs of a batch size in; the verdict when there is one."""
        self.failures.add(baseline, candidate)
        fresh = self.medians[size].add(baseline, candidate)
        if "p99" in self.metrics:
            self.tails[size].add(baseline, candidate)
        return self.look() if fresh else None

    def close(self) -> Verdict | None:
        """Score what is left when the time is over; the last look."""
        for track in (*self.medians.values(), *self.tails.values()):
            track.close()
        return self.look()

    def look(self) -> Verdict | None:
        """The verdict that the evidence allows now, or None."""
        if self.pairs < self.gate.min_pairs:
            return None
        if any(self.pairs_of(size) < self._least(size) for size in self.batch_sizes):
            return None
        return self._failed() or self._passed()

    def _least(self, size: int) -> int:
        return min(MIN_PAIRS_A_SIZE, self.gate.min_pairs)

    def _failed(self) -> Verdict | None:
        evidence = self.log_e_fail()
        weights = self.weights()
        total = stats.log_weighted_sum(
            [evidence[name] for name in weights], [weights[name] for name in weights]
        )
        if total < -math.log(self.gate.alpha):
            return None
        worst = max(weights, key=lambda name: evidence[name] + math.log(weights[name]))
        return Verdict("fail", "regression", f"the candidate is worse in {label(worst)}", worst)

    def _passed(self) -> Verdict | None:
        for name, evidence in self.log_e_pass().items():
            if name not in self.cleared and evidence >= -math.log(self.gate.beta):
                self.cleared[name] = self.pairs
        if any(name not in self.cleared for name in self.names()):
            return None
        return Verdict("pass", "proved", f"no regression: {self._ruled_out()} are ruled out")

    def _ruled_out(self) -> str:
        words = {
            "p50": f"+{self.gate.refused_p50_percent:g} % p50",
            "p99": f"+{self.gate.refused_p99_percent:g} % p99",
            "errors": f"{self.gate.refused_error_rate:.2%} more errors",
        }
        return ", ".join(words[name] for name in ("p50", "p99", "errors") if name in self.metrics)

    def names(self) -> list[str]:
        """The metrics that decide: `p50:<batch size>` …, `p99`, `errors`."""
        result = []
        if "p50" in self.metrics:
            result += [f"p50:{size}" for size in self.batch_sizes]
        return result + [name for name in ("p99", "errors") if name in self.metrics]

    def weights(self) -> dict[str, float]:
        """Each deciding metric's share of alpha; they sum to 1."""
        raw = {"p99": P99_WEIGHT, "errors": ERROR_WEIGHT}
        parts = {name: raw.get(name, P50_WEIGHT / len(self.batch_sizes)) for name in self.names()}
        total = sum(parts.values())
        return {name: part / total for name, part in parts.items()}

    def log_e_fail(self) -> dict[str, float]:
        """Log e-value of each metric for "worse than tolerated"."""
        result = {
            f"p50:{size}": track.at_tolerated.log_e_above(P50_MIXTURE)
            for size, track in self.medians.items()
        }
        result["p99"] = self._tail(refused=False).log_e_above(P99_MIXTURE)
        result["errors"] = stats.log_e_discordant(
            self.failures.candidate_only, self.failures.baseline_only
        )
        return result

    def log_e_pass(self) -> dict[str, float]:
        """Log e-value of each metric for "better than what must be refused"."""
        every = {
            f"p50:{size}": track.at_refused.log_e_below(P50_MIXTURE)
            for size, track in self.medians.items()
        }
        every["p99"] = self._tail(refused=True).log_e_below(P99_MIXTURE)
        every["errors"] = stats.log_e_rate(
            self.failures.candidate_only,
            self.failures.baseline_only,
            self.failures.pairs,
            self.gate.refused_error_rate,
            above=False,
        )
        return {name: every[name] for name in self.names()}

    def _tail(self, *, refused: bool) -> Sums:
        """p99's sums over the batch sizes: few slow requests each, so they decide together."""
        parts = [t.at_refused if refused else t.at_tolerated for t in self.tails.values()]
        return Sums(sum(p.total for p in parts), sum(p.squares for p in parts))

    def open_sizes(self) -> tuple[int, ...]:
        """Batch sizes that still need pairs; those whose p50 is decided retire."""
        short = [s for s in self.batch_sizes if self.pairs_of(s) < self._least(s)]
        undecided = [
            size
            for size in self.batch_sizes
            if "p50" in self.metrics and f"p50:{size}" not in self.cleared
        ]
        pooled = {"p99", "errors"} & self.metrics - set(self.cleared)
        small = list(self.batch_sizes[:TAIL_SIZES]) if pooled else []
        chosen = tuple(sorted({*short, *undecided, *small}))
        return chosen or self.batch_sizes[:1]


def label(metric: str) -> str:
    """A metric's name for people."""
    name, _, size = metric.partition(":")
    return f"{name} of batch size {size}" if size else name
