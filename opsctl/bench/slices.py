"""Evidence of a gate whose arms share one serial device and take turns, slice by slice. No I/O.

Pairs of requests would meet in the device's one queue, where each waits for the other's slowness.
So a whole slice of time belongs to one arm, a coin decides which of two slices is whose, and one
observation is the difference of a slice pair's mean scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opsctl.bench import stats
from opsctl.bench.evidence import P99_MIXTURE, Rule, rate_track, rule_of
from opsctl.bench.stats import Floats, Sums
from opsctl.config import settings

SLICE_S = 0.25
"""Length of a slice: some dozens of requests, short beside most disturbances."""

GUARD_S = 0.04
"""Start of a slice in which nothing is sent, so that the other arm's queue is empty."""

SLICE_MIXTURE = 15.0
"""Prior variance of lambda: differences of means are small, so lambda is large."""

TAIL_REQUESTS = 500
"""Pooled requests that are ranked together for p99 (some slice pairs), as with pairs."""

ERROR_MIXTURE = 0.15
"""Prior variance of lambda for the slices' error counts."""


@dataclass
class SliceTrack:
    """Slice pairs of one batch size under one rule, with the sums at both margins."""

    rule: Rule
    mixture: float
    pooled_least: int
    """Requests that must have come in before they are ranked together."""
    pairs: list[tuple[Floats, Floats]] = field(default_factory=list)
    used: int = 0
    ends: list[int] = field(default_factory=list)
    """Number of slice pairs at which each ranking ended."""
    waiting: int = 0
    at_tolerated: Sums = field(default_factory=Sums)
    at_refused: Sums = field(default_factory=Sums)

    def add(self, baseline: Floats, candidate: Floats) -> bool:
        """Take a slice pair in; True when something was scored."""
        self.pairs.append((baseline, candidate))
        self.waiting += baseline.size + candidate.size
        if self.waiting < self.pooled_least:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Score what waits."""
        block = self.pairs[self.used :]
        self.used, self.waiting = len(self.pairs), 0
        if block:
            self.ends.append(self.used)
            self.at_tolerated.add(slice_differences(block, self.rule.tolerated, self.rule.quantile))
            self.at_refused.add(slice_differences(block, self.rule.refused, self.rule.quantile))


def slice_differences(
    block: Sequence[tuple[Floats, Floats]], ratio: float, quantile: float
) -> Floats:
    """One difference a slice pair, after ranking all requests of the block together.

    For the median it is that of the slices' mean ranks; for a higher `quantile` that of how many
    requests lie above it.
    """
    parts = [part for first, second in block for part in (first, second / ratio)]
    places = np.split(stats.ranks(np.concatenate(parts)), np.cumsum([p.size for p in parts])[:-1])
    score = np.mean if quantile == 0.5 else np.sum
    values = [
        float(score(place if quantile == 0.5 else place > quantile)) if place.size else math.nan
        for place in places
    ]
    found: Floats = np.array(values[1::2]) - np.array(values[::2])
    return np.asarray(found[np.isfinite(found)])


class SliceEvidence:
    """Slice pairs of every batch size, and errors."""

    def __init__(self, gate: settings.Gate, batch_sizes: Sequence[int]) -> None:
        self.gate = gate
        p50, p99 = rule_of("p50", gate), rule_of("p99", gate)
        self.medians = {size: SliceTrack(p50, SLICE_MIXTURE, 1) for size in batch_sizes}
        self.tails = {size: SliceTrack(p99, P99_MIXTURE, TAIL_REQUESTS) for size in batch_sizes}
        self.rates = rate_track()
        self.errors = Sums()
        self.candidate_errors = 0
        self.counts = dict.fromkeys(batch_sizes, 0)
        self.candidate_requests = 0

    @property
    def pairs(self) -> int:
        return sum(self.counts.values())

    def pairs_of(self, size: int) -> int:
        return self.counts[size]

    def add(self, size: int, baseline: Sequence[float], candidate: Sequence[float]) -> bool:
        """Take the latencies of a slice pair in."""
        first, second = np.array(baseline), np.array(candidate)
        self.counts[size] += min(first.size, second.size)
        failed = float(np.isinf(second).sum() - np.isinf(first).sum())
        self.errors.add(np.array([failed]))
        self.candidate_errors += int(np.isinf(second).sum())
        self.candidate_requests += second.size
        self.tails[size].add(first, second)
        return self.medians[size].add(first, second)

    def close(self) -> None:
        for track in self.tails.values():
            track.close()

    def log_e_fail(self) -> dict[str, float]:
        result = {
            f"p50:{size}": track.at_tolerated.log_e_above(SLICE_MIXTURE)
            for size, track in self.medians.items()
        }
        result["p99"] = self._tail(refused=False).log_e_above(P99_MIXTURE)
        result["errors"] = self.errors.log_e_above(ERROR_MIXTURE)
        result["throughput"] = self.rates.log_e_fail()
        return result

    def log_e_pass(self) -> dict[str, float]:
        result = {
            f"p50:{size}": track.at_refused.log_e_below(SLICE_MIXTURE)
            for size, track in self.medians.items()
        }
        result["p99"] = self._tail(refused=True).log_e_below(P99_MIXTURE)
        # Errors of the baseline are not deducted: slices do not pair requests.
        result["errors"] = stats.log_e_rate(
            self.candidate_errors,
            0,
            self.candidate_requests,
            self.gate.refused_error_rate,
            above=False,
        )
        result["throughput"] = self.rates.log_e_pass()
        return result

    def _tail(self, *, refused: bool) -> Sums:
        parts = [t.at_refused if refused else t.at_tolerated for t in self.tails.values()]
        return Sums(sum(p.total for p in parts), sum(p.squares for p in parts))
