"""What other tools would have said in the same world.

Each is written from its published rule, with 180 s and 100 requests a second an arm. "Baseline
first" gives each arm half of the time; interleaved gives both arms all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import mannwhitneyu

from tests.bench.simulator.world import Floats, World

RATE = 100.0
BUDGET_S = 180.0

Judged = tuple[str, float]
"""Outcome and seconds."""


@dataclass(frozen=True)
class Samples:
    """Latencies of both arms in the order in which they were measured."""

    baseline: Floats
    candidate: Floats


def baseline_first(world: World, seconds: float = BUDGET_S) -> Samples:
    count = int(seconds / 2 * RATE)
    at_s = np.arange(count) / RATE
    return Samples(
        world.latencies(at_s, candidate=False),
        world.latencies(at_s + seconds / 2, candidate=True),
    )


def interleaved(world: World, seconds: float = BUDGET_S) -> Samples:
    at_s = np.arange(int(seconds * RATE)) / RATE
    return Samples(world.latencies(at_s, candidate=False), world.latencies(at_s, candidate=True))


def windows(values: Floats, seconds: float, quantile: float) -> Floats:
    """The quantile of each window of some seconds."""
    size = int(seconds * RATE)
    count = len(values) // size
    result: Floats = np.quantile(values[: count * size].reshape(count, size), quantile, axis=1)
    return result


def hodges_lehmann(before: Floats, after: Floats, confidence: float) -> tuple[float, float]:
    """Shift `after - before` and the lower bound of its confidence interval.

    The interval's ranks use the normal approximation (Hollander and Wolfe, "Nonparametric
    Statistical Methods", section 4.3), as R's wilcox.test does for large samples.
    """
    gaps = np.sort((after[:, None] - before[None, :]).ravel())
    first, second = len(before), len(after)
    z = {0.98: 2.3263}[confidence]
    spread = math.sqrt(first * second * (first + second + 1) / 12.0)
    rank = max(0, int(first * second / 2.0 - z * spread))
    return float(np.median(gaps)), float(gaps[rank])


def kayenta_high(before: Floats, after: Floats, allowed_increase: float) -> bool:
    """Kayenta's NetflixACAJudge for one metric: "High" when the interval's lower bound is above a
    quarter of the estimate and the effect (ratio of means) reaches `allowedIncrease`."""
    estimate, low = hodges_lehmann(before, after, 0.98)
    effect = float(after.mean() / before.mean())
    return low > 0.25 * abs(estimate) and effect >= allowed_increase


KAYENTA_POINT_S = 1.0
"""One point a second: 90 points a metric baseline-first, more than the 50 that Kayenta asks for."""


def kayenta(samples: Samples, allowed: tuple[float, float]) -> str:
    """Fails when p50 or p99 is High; `allowed` are their allowedIncrease."""
    for quantile, increase in zip((0.5, 0.99), allowed, strict=True):
        before = windows(samples.baseline, KAYENTA_POINT_S, quantile)
        after = windows(samples.candidate, KAYENTA_POINT_S, quantile)
        if kayenta_high(before, after, increase):
            return "fail"
    return "pass"


def kayenta_default(world: World) -> Judged:
    return kayenta(baseline_first(world), (1.0, 1.0)), BUDGET_S


def kayenta_tuned(world: World, seconds: float = BUDGET_S) -> Judged:
    """Interleaved, with increases that match the gate's margins."""
    return kayenta(interleaved(world, seconds), (1.025, 1.05)), seconds


def benchstat(world: World) -> Judged:
    """Ten runs of the old release, then ten of the new: U test of the means at 5 %."""
    samples = baseline_first(world)
    before = samples.baseline.reshape(10, -1).mean(axis=1)
    after = samples.candidate.reshape(10, -1).mean(axis=1)
    p_value = mannwhitneyu(before, after, alternative="two-sided").pvalue
    worse = bool(p_value < 0.05) and float(np.median(after)) > float(np.median(before))
    return ("fail" if worse else "pass"), BUDGET_S


def mean_p99(world: World) -> Judged:
    """The candidate's mean p99 of 10 s windows is more than 5 % above the baseline's."""
    samples = baseline_first(world)
    before = windows(samples.baseline, 10.0, 0.99).mean()
    after = windows(samples.candidate, 10.0, 0.99).mean()
    return ("fail" if after > 1.05 * before else "pass"), BUDGET_S


def flagger(world: World) -> Judged:
    """18 checks of p99 against a threshold, the baseline's + 5 %; the fifth bad one fails."""
    samples = baseline_first(world)
    threshold = 1.05 * float(np.quantile(samples.baseline, 0.99))
    bad = windows(samples.candidate, 5.0, 0.99) > threshold
    fifth = np.flatnonzero(np.cumsum(bad) >= 5)
    if fifth.size == 0:
        return "pass", BUDGET_S
    return "fail", BUDGET_S / 2 + 5.0 * (int(fifth[0]) + 1)


QUANTILE_STEP = 400
"""Pairs between two looks at the sequences (they are valid at any time)."""


def quantile_sequences(world: World) -> Judged:
    """Confidence sequences of both arms' medians, compared (Howard and Ramdas, "Sequential
    estimation of quantiles with applications to A/B testing", 2022, theorem 1)."""
    samples = interleaved(world)
    for count in range(200, len(samples.baseline) + 1, QUANTILE_STEP):
        width = quantile_width(count, 0.01)
        before = np.sort(samples.baseline[:count])
        after = np.sort(samples.candidate[:count])
        low, high = max(0.0, 0.5 - width), min(1.0, 0.5 + width)
        if _at(after, low) > 1.015 * _at(before, high):
            return "fail", count / RATE
        if _at(after, high) < 1.05 * _at(before, low):
            return "pass", count / RATE
    return "inconclusive", BUDGET_S


def quantile_width(count: int, alpha: float) -> float:
    """Half width in probability of the sequence for the median of one arm, two-sided `alpha`."""
    rate = (1.4 * math.log(math.log(2.1 * count)) + math.log(10.0 / (alpha / 2.0))) / count
    return 1.5 * math.sqrt(0.25 * rate) + 0.8 * rate


def _at(ordered: Floats, share: float) -> float:
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


PEERS: dict[str, Callable[[World], Judged]] = {
    "Kayenta default, baseline first": kayenta_default,
    "benchstat n = 10, old then new": benchstat,
    "mean p99 > +5 %, baseline first": mean_p99,
    "Flagger, 5 of 18 bad, baseline first": flagger,
    "Kayenta tuned, interleaved": kayenta_tuned,
    "quantile confidence sequences": quantile_sequences,
}
