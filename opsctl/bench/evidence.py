"""Evidence of a gate whose arms answer in pairs: blocks of pairs, their sums, errors. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from opsctl.bench import stats
from opsctl.bench.stats import Floats, Sums
from opsctl.config import settings

P50_BLOCK = 25
"""Pairs ranked together for p50: small enough that a burst of noise spoils few, yet 50 ranks."""

P99_BLOCK = 250
"""Pairs ranked together for p99, which is where the 5 slowest of 500 begin (400 pairs need a sixth
more time for the same verdicts in a noisy scene: simulated)."""

P50_MIXTURE = 0.1
P99_MIXTURE = 0.15
"""Prior variances of lambda (simulated: a third or three times as much is no faster)."""

RATE_BLOCK = 4
"""Slice pairs of full load ranked together for throughput: few, as each takes a second."""

RATE_MIXTURE = 4.0
"""Prior variance of lambda for throughput: slices differ little by chance, so lambda is large (14
pairs that all lean one way prove a fail, where 0.1 would need 28)."""

RATE_TOLERATED = 1.02
RATE_REFUSED = 1.05
"""Longer time a request under full load that is no regression, and that must be ruled out."""

PERCENT = 100.0


class Evidence(Protocol):
    """What a judge decides from. Metrics are named `p50:<batch size>`, `p99`, `errors`,
    `throughput`."""

    rates: Track
    """Seconds a request under full load, of slice pairs (metric `throughput`)."""

    @property
    def pairs(self) -> int:
        """Valid observations of each arm."""

    def pairs_of(self, size: int) -> int:
        """The same of one batch size."""

    def add(self, size: int, baseline: Sequence[float], candidate: Sequence[float]) -> bool:
        """Take latencies in (seconds, errors infinite); True when it is time to look."""

    def close(self) -> None:
        """Score what is left when the time is over."""

    def log_e_fail(self) -> dict[str, float]:
        """Log e-value of each metric for "worse than tolerated"."""

    def log_e_pass(self) -> dict[str, float]:
        """Log e-value of each metric for "better than what must be refused"."""


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

    def log_e_fail(self) -> float:
        """Log e-value for "worse than tolerated"."""
        return self.at_tolerated.log_e_above(self.rule.mixture)

    def log_e_pass(self) -> float:
        """Log e-value for "better than what must be refused"."""
        return self.at_refused.log_e_below(self.rule.mixture)

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


def rate_track() -> Track:
    """Evidence on throughput: seconds a request under full load, of slice pairs."""
    return Track(Rule(0.5, RATE_BLOCK, RATE_MIXTURE, RATE_TOLERATED, RATE_REFUSED))


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


class PairEvidence:
    """Pairs in the order in which they were scheduled, in blocks of each batch size."""

    def __init__(self, gate: settings.Gate, batch_sizes: Sequence[int]) -> None:
        self.gate = gate
        self.medians = {size: Track(rule_of("p50", gate)) for size in batch_sizes}
        self.tails = {size: Track(rule_of("p99", gate)) for size in batch_sizes}
        self.rates = rate_track()
        self.failures = Failures()

    @property
    def pairs(self) -> int:
        return self.failures.pairs

    def pairs_of(self, size: int) -> int:
        return len(self.medians[size].baseline)

    def add(self, size: int, baseline: Sequence[float], candidate: Sequence[float]) -> bool:
        self.failures.add(baseline, candidate)
        self.tails[size].add(baseline, candidate)
        return self.medians[size].add(baseline, candidate)

    def close(self) -> None:
        for track in (*self.medians.values(), *self.tails.values()):
            track.close()

    def log_e_fail(self) -> dict[str, float]:
        result = {f"p50:{size}": track.log_e_fail() for size, track in self.medians.items()}
        result["p99"] = self.tail(refused=False).log_e_above(P99_MIXTURE)
        result["errors"] = stats.log_e_discordant(
            self.failures.candidate_only, self.failures.baseline_only
        )
        result["throughput"] = self.rates.log_e_fail()
        return result

    def log_e_pass(self) -> dict[str, float]:
        result = {f"p50:{size}": track.log_e_pass() for size, track in self.medians.items()}
        result["p99"] = self.tail(refused=True).log_e_below(P99_MIXTURE)
        result["errors"] = stats.log_e_rate(
            self.failures.candidate_only,
            self.failures.baseline_only,
            self.failures.pairs,
            self.gate.refused_error_rate,
            above=False,
        )
        result["throughput"] = self.rates.log_e_pass()
        return result

    def tail(self, *, refused: bool) -> Sums:
        """p99's sums over the batch sizes: few slow requests each, so they decide together."""
        parts = [t.at_refused if refused else t.at_tolerated for t in self.tails.values()]
        return Sums(sum(p.total for p in parts), sum(p.squares for p in parts))
