"""Pure: what a gate's report holds, thinned to what a chart can show."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from opsctl.report_charts import nines

POINTS_MAX = 160
"""Most points of a curve: about one for two of the chart's units."""

TABLE_ROWS_MAX = 12
"""Most rows of the table that says in figures what a chart of a sequence shows."""

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)

MICROSECONDS_A_MS = 1_000.0

Item = TypeVar("Item")


@dataclass(frozen=True)
class Distribution:
    """Latencies of one arm: `points` are (milliseconds, share of requests at most that slow)."""

    points: tuple[tuple[float, float], ...]
    percentiles: Mapping[float, float]
    """Milliseconds by percent."""
    slowest_ms: float


def distribution(histogram: str) -> Distribution | None:
    """The distribution of a stored histogram; None when it is empty or can't be read."""
    from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException

    from opsctl.bench.figures import decode

    try:
        made = decode(histogram)
    except (HdrCookieException, HdrHistogramSettingsException, HdrLengthException):
        return None
    except (ValueError, IndexError, zlib.error):  # base64, its content, or what it unpacks to
        return None
    total = made.get_total_count()
    if not total:
        return None
    points = [
        (item.value_iterated_to / MICROSECONDS_A_MS, item.total_count_to_this_value / total)
        for item in made.get_recorded_iterator()
    ]
    # The last share is 1, which no axis of nines can show: half a request below it.
    top = 1.0 - 0.5 / total
    shown = thinned([(value, min(share, top)) for value, share in points])
    named = {p: made.get_value_at_percentile(p) / MICROSECONDS_A_MS for p in PERCENTILES}
    return Distribution(tuple(shown), named, made.get_max_value() / MICROSECONDS_A_MS)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that lie apart on the axis of nines, first and last among them."""
    if len(points) <= POINTS_MAX:
        return list(points)
    apart = nines(points[-1][1]) / (POINTS_MAX - 2)
    kept = [points[0]]
    for point in points[1:-1]:
        if nines(point[1]) - nines(kept[-1][1]) >= apart:
            kept.append(point)
    return [*kept, points[-1]]


def spread_out(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` items, evenly taken, the last one among them."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(number * last / (most - 1))] for number in range(most)]


@dataclass(frozen=True)
class Trace:
    """A ratio with its bounds as changes in percent, along seconds or pairs."""

    unit: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]
    """(where, estimate, low, high)."""


def trace(entry: Mapping[str, Any]) -> Trace | None:
    """How a metric's ratio became certain; None when the gate kept no course of it."""
    course = [
        point
        for point in entry.get("over_time", ())
        if point.get("seconds") is not None or point.get("pairs") is not None
    ]
    if not course:
        return None
    unit = "seconds" if course[0].get("seconds") is not None else "pairs"
    points = [
        (point[unit], *(_percent(point.get(key)) for key in ("ratio", "low", "high")))
        for point in spread_out(course, POINTS_MAX)
        if point.get(unit) is not None
    ]
    return Trace(unit, tuple(points))


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else (ratio - 1.0) * 100.0
