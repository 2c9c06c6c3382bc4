"""Trend of stored benchmarks over releases, with the points at which latency changed. No I/O.

Change points by E-divisive with permutation tests (Matteson and James, "A nonparametric approach
for multiple change point analysis of multivariate data", 2014), as MongoDB does for its nightly
benchmarks (Daly et al., "The use of change point detection to identify software performance
regressions in a continuous integration system", 2020).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsctl.bench.comparison import load_of
from opsctl.bench.outcome import broken
from opsctl.bench.stats import Floats
from opsctl.model import Json

ALPHA = 0.01
"""Error bound of each split: one false change point in a hundred tests."""

PERMUTATIONS = 999
"""Shuffles that a split is tested against; 1 / (PERMUTATIONS + 1) is the least p-value."""

SEGMENT_MIN = 3
"""Fewest reports between two change points: two can't tell a change from an odd run."""

METRICS = ("p50_ms", "p99_ms")


@dataclass(frozen=True)
class ChangePoint:
    """Latency changed with this report: medians of the stretches before and after."""

    index: int
    release: str
    before_ms: float
    after_ms: float

    @property
    def ratio(self) -> float:
        return self.after_ms / self.before_ms

    def to_dict(self) -> Json:
        return {**self.__dict__, "ratio": self.ratio}


@dataclass(frozen=True)
class Series:
    """One percentile at one batch size over reports of one machine, oldest first."""

    batch_size: str
    metric: str
    releases: tuple[str, ...]
    values_ms: tuple[float, ...]
    changes: tuple[ChangePoint, ...]

    def to_dict(self) -> Json:
        return {
            "batch_size": self.batch_size,
            "metric": self.metric,
            "releases": list(self.releases),
            "values_ms": list(self.values_ms),
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True)
class Trend:
    """All series of the newest report's machine and load.

    `left_out` reports came from other machines, `other_load` from this one under another load, and
    latencies of `broken` ones are of no use (see `outcome.broken`).
    """

    machine: str
    left_out: int
    series: tuple[Series, ...]
    other_load: int = 0
    count: int = 0
    """Reports in the series."""
    broken: int = 0

    def to_dict(self) -> Json:
        return {
            "format": 1,
            "kind": "trend",
            "machine": self.machine,
            "left_out": self.left_out,
            "other_load": self.other_load,
            "broken": self.broken,
            "reports": self.count,
            "series": [one.to_dict() for one in self.series],
        }

    def lines(self) -> list[str]:
        """The trend as text: a line a series, and one for each change point."""
        rows = []
        if self.left_out:
            rows.append(f"caution: {self.left_out} reports of other machines are left out")
        if self.other_load:
            rows.append(f"caution: {self.other_load} reports under another load are left out")
        if self.broken:
            rows.append(
                f"caution: {self.broken} reports that failed or were disturbed are left out"
            )
        for one in self.series:
            named = zip(one.releases, one.values_ms, strict=True)
            shown = " ".join(f"{name} {value:.3g}".strip() for name, value in named)
            rows.append(f"batch {one.batch_size:>3} {one.metric}: {shown}")
            rows += [
                f"    changed with {change.release or f'report {change.index + 1}'}: "
                f"{change.before_ms:.3g} → {change.after_ms:.3g} ms ({change.ratio - 1.0:+.1%})"
                for change in one.changes
            ]
        return rows


def trend(reports: Sequence[Mapping[str, Any]]) -> Trend:
    """The trend over reports of `bench run` or of gates (their candidates), in any order.

    Figures of different machines, or of different loads, are never put in one series.
    """
    sound = [report for report in reports if not broken(report)]
    unsound = len(reports) - len(sound)
    ordered = sorted(sound, key=lambda report: float(report["started"]))
    if not ordered:
        return Trend("", 0, (), broken=unsound)
    machine = ordered[-1]["machine"]["id"]
    same = [report for report in ordered if report["machine"]["id"] == machine]
    elsewhere = len(ordered) - len(same)
    load = load_of(same[-1])
    alike = [report for report in same if load_of(report) == load]
    other_load, same = len(same) - len(alike), alike
    sizes = sorted({size for report in same for size in report["batch_sizes"]}, key=int)
    series = tuple(_series(same, size, metric) for size in sizes for metric in METRICS)
    return Trend(machine, elsewhere, series, other_load, len(same), unsound)


def _series(reports: Sequence[Mapping[str, Any]], size: str, metric: str) -> Series:
    having = [report for report in reports if size in report["batch_sizes"]]
    releases = tuple(str(report.get("release", "")) for report in having)
    values = tuple(float(report["batch_sizes"][size]["candidate"][metric]) for report in having)
    changes = tuple(
        ChangePoint(index, releases[index], before, after)
        for index, before, after in _medians(values, change_points(values))
    )
    return Series(size, metric, releases, values, changes)


def _medians(values: Sequence[float], points: Sequence[int]) -> list[tuple[int, float, float]]:
    edges = [0, *points, len(values)]
    parts = [float(np.median(values[a:b])) for a, b in itertools.pairwise(edges)]
    return [(point, parts[i], parts[i + 1]) for i, point in enumerate(points)]


def change_points(values: Sequence[float]) -> list[int]:
    """Indices at which a new level begins. The same values always give the same answer."""
    logs: Floats = np.log(np.maximum(np.array(values, dtype=np.float64), 1e-9))
    return sorted(_split(logs, 0, np.random.default_rng(len(values))))


def _split(logs: Floats, offset: int, random: np.random.Generator) -> list[int]:
    """Split where the two sides differ most, if chance seldom does as well, and go on in both."""
    if logs.size < 2 * SEGMENT_MIN:
        return []
    gaps = np.abs(logs[:, None] - logs[None, :])
    at, seen = best_split(gaps)
    chance = 0
    for _ in range(PERMUTATIONS):
        order = random.permutation(logs.size)
        chance += best_split(gaps[np.ix_(order, order)])[1] >= seen
    if (chance + 1) / (PERMUTATIONS + 1) > ALPHA:
        return []
    left = _split(logs[:at], offset, random)
    right = _split(logs[at:], offset + at, random)
    return [*left, offset + at, *right]


def best_split(gaps: Floats) -> tuple[int, float]:
    """Where values 0 … at - 1 differ most from those that follow, up to any later end (so that a
    level that comes back hides nothing), by scaled energy distance; and that distance.

    `gaps` are the absolute differences of all pairs of values.
    """
    size = len(gaps)
    sums = np.zeros((size + 1, size + 1))
    sums[1:, 1:] = gaps.cumsum(axis=0).cumsum(axis=1)
    at, end = np.triu_indices(size + 1, SEGMENT_MIN)
    at, end = at[at >= SEGMENT_MIN], end[at >= SEGMENT_MIN]
    first, second = at, end - at
    between = 2.0 * (sums[at, end] - sums[at, at]) / (first * second)
    within = sums[at, at] / first**2
    beyond = (sums[end, end] - 2.0 * sums[at, end] + sums[at, at]) / second**2
    distance = first * second / (first + second) * (between - within - beyond)
    best = int(np.argmax(distance))
    return int(at[best]), float(distance[best])
