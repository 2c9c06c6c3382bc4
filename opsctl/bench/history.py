"""Trend of stored benchmarks over releases, with the points at which latency changed. No I/O.

A change point is where two levels explain the values best, by the likelihood ratio for a shift of
the mean of normal values of unknown variance (Hawkins, "Testing a sequence of observations for a
shift in location", 1977), if noise alone seldom has a split as good.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsctl.bench.comparison import load_of
from opsctl.bench.outcome import broken
from opsctl.bench.stats import Floats
from opsctl.model import Json

CHANCE_SCORES = {
    6: 2.53, 7: 2.89, 8: 3.08, 10: 3.31, 12: 3.45, 16: 3.58, 24: 3.78, 32: 3.89, 48: 4.02,
    64: 4.14, 96: 4.25, 128: 4.31, 192: 4.44, 256: 4.52, 512: 4.65,
}  # fmt: skip
"""The best split's score that so many values of pure noise pass once in a hundred times, from 2,500
to 20,000 simulated series each. Between two counts it grows about as their logarithm; beyond the
last the bound stays, and is passed a little more often."""

REPEATABLE = 0.005
"""Standard deviation (of the logarithm) of reports that are as alike as reports can be: without it
a change of a thousandth would be one wherever values are equal to the last digit."""

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
    return _split(np.log(np.maximum(np.array(values, dtype=np.float64), 1e-9)), 0)


def _split(logs: Floats, offset: int) -> list[int]:
    """Split where the two sides differ most, if chance seldom does as well, and go on in both."""
    if logs.size < 2 * SEGMENT_MIN:
        return []
    at, score = best_split(logs)
    if score <= chance_score(logs.size):
        return []
    return [*_split(logs[:at], offset), offset + at, *_split(logs[at:], offset + at)]


def chance_score(count: int) -> float:
    """The score that the best split of `count` values of one level passes once in a
    hundred times."""
    counts = np.log(list(CHANCE_SCORES))
    return float(np.interp(math.log(count), counts, list(CHANCE_SCORES.values())))


def best_split(logs: Floats) -> tuple[int, float]:
    """Where values 0 … at - 1 differ most from those that follow, up to any later end (so that a
    level that comes back hides nothing), and by how many standard deviations of a normal value:
    Student's t of the two sides, by Wallace's approximation ("Bounds on normal approximations to
    Student's and the chi-square distributions", 1959).
    """
    size = logs.size
    centred = logs - logs.mean()
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    at, end = np.triu_indices(size + 1, SEGMENT_MIN)
    at, end = at[at >= SEGMENT_MIN], end[at >= SEGMENT_MIN]
    first, second, freedom = at, end - at, end - 2
    gap = sums[at] / first - (sums[end] - sums[at]) / second
    within = squares[end] - sums[at] ** 2 / first - (sums[end] - sums[at]) ** 2 / second
    variance = np.maximum(within, 0.0) / freedom + REPEATABLE**2
    t_squared = gap**2 / (variance * (1.0 / first + 1.0 / second))
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    score = scale * np.sqrt(freedom * np.log1p(t_squared / freedom))
    best = int(np.argmax(score))
    return int(at[best]), float(score[best])
