"""Compares two stored reports: what changed, and whether it is more than chance.

Two stored runs were not interleaved, so the machine's own changes between them are in the ratio;
the text says so. Only the gate proves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdrh.histogram import HdrHistogram
from scipy.stats import binom

from opsctl.bench.figures import decode, percentile_ms
from opsctl.bench.outcome import broken
from opsctl.errors import ConfigError, GateUndecided
from opsctl.model import Json

PERCENTILES = (50.0, 90.0, 99.0)

LOAD_KEYS = ("path", "method", "rate_per_s", "arrivals", "interleave", "connections")
"""Settings of `bench` that change what latency means; what is sent does too (`bodies`)."""

CONFIDENCE = 0.95
"""Of each ratio's bounds; each report's percentile gets half of the rest."""


@dataclass(frozen=True)
class Change:
    """One percentile at one batch size: milliseconds before and after, ratio with bounds."""

    batch_size: str
    metric: str
    before_ms: float
    after_ms: float
    ratio: float | None
    low: float | None
    high: float | None

    @property
    def word(self) -> str:
        """`slower` or `faster` when the bounds exclude 1, `no clear change` otherwise."""
        if self.low is not None and self.low > 1.0:
            return "slower"
        if self.high is not None and self.high < 1.0:
            return "faster"
        return "no clear change"

    def to_dict(self) -> Json:
        return {**self.__dict__, "change": self.word}


@dataclass(frozen=True)
class Comparison:
    """All changes, and what makes the comparison doubtful."""

    changes: tuple[Change, ...]
    cautions: tuple[str, ...]

    def to_dict(self) -> Json:
        return {
            "format": 1,
            "kind": "comparison",
            "changes": [change.to_dict() for change in self.changes],
            "cautions": list(self.cautions),
        }

    def lines(self) -> list[str]:
        """The comparison as text."""
        rows = [f"caution: {caution}" for caution in self.cautions]
        for one in self.changes:
            bounds = f" [{_shown(one.low)} … {_shown(one.high)}]"
            rows.append(
                f"batch {one.batch_size:>3} {one.metric:<4} {one.before_ms:9.3f} ms → "
                f"{one.after_ms:9.3f} ms  {_shown(one.ratio)}{bounds}  {one.word}"
            )
        return rows


def _shown(ratio: float | None) -> str:
    return "?" if ratio is None else f"{100.0 * (ratio - 1.0):+.1f} %"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Compare two reports of `bench run` or of gates (their candidates), as read from JSON.

    Raises ConfigError when one is no such report, or they have no batch size in common, and
    GateUndecided when the latencies of one are of no use (see `outcome.broken`).
    """
    for report in (before, after):
        if not {"batch_sizes", "machine", "bench"} <= set(report):
            raise ConfigError(
                "a file is no measurement",
                why=f"it holds {', '.join(list(report)[:5]) or 'nothing'}",
                next_step="Name files of `opsctl bench run`, or gate reports.",
            )
    for word, report in (("first", before), ("second", after)):
        if why := broken(report):
            raise GateUndecided(
                f"the {word} measurement{_of(report)} can't be compared",
                why=why,
                next_step="Measure again: opsctl bench run (while that release runs).",
            )
    common = [size for size in before["batch_sizes"] if size in after["batch_sizes"]]
    if not common:
        raise ConfigError(
            "the two reports have no batch size in common",
            why=f"{list(before['batch_sizes'])} against {list(after['batch_sizes'])}",
            next_step="Run both benchmarks with the same bench.batch_sizes.",
        )
    changes = [
        change
        for size in common
        for change in _changes(size, _candidate(before, size), _candidate(after, size))
    ]
    return Comparison(tuple(changes), tuple(_cautions(before, after)))


def _of(report: Mapping[str, Any]) -> str:
    return f", of {report['release']}," if report.get("release") else ""


def _candidate(report: Mapping[str, Any], size: str) -> HdrHistogram:
    return decode(report["batch_sizes"][size]["candidate"]["histogram"])


def _cautions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    result = ["the runs were not interleaved: changes of the machine between them are included"]
    first, second = before["machine"], after["machine"]
    if first["id"] != second["id"]:
        differing = [key for key in first if first[key] != second.get(key) and key != "id"]
        result.append(f"different machines ({', '.join(differing)}): the ratio means little")
    changed = [name for name, value in load_of(before).items() if load_of(after)[name] != value]
    if changed:
        result.append(f"different load ({', '.join(changed)})")
    return result


def load_of(report: Mapping[str, Any]) -> Json:
    """What must be the same for latencies to be comparable, by name."""
    settings = {f"bench.{key}": report["bench"].get(key) for key in LOAD_KEYS}
    # Reports from before there was a choice are of REST.
    settings["bench.protocol"] = report["bench"].get("protocol", "rest")
    return {**settings, "what is sent": report.get("bodies")}


def _changes(size: str, before: HdrHistogram, after: HdrHistogram) -> list[Change]:
    result = []
    for percent in PERCENTILES:
        old, new = percentile_ms(before, percent), percentile_ms(after, percent)
        old_low, old_high = bounds_ms(before, percent)
        new_low, new_high = bounds_ms(after, percent)
        result.append(
            Change(
                batch_size=size,
                metric=f"p{percent:g}",
                before_ms=old,
                after_ms=new,
                ratio=_ratio(new, old),
                low=_ratio(new_low, old_high),
                high=_ratio(new_high, old_low),
            )
        )
    return result


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def bounds_ms(made: HdrHistogram, percent: float) -> tuple[float | None, float | None]:
    """Bounds of a percentile from order statistics: how many of n values lie below it is binomial
    (David and Nagaraja, "Order Statistics", 2003, section 7.1). None where the sample is too
    small to bound it."""
    count = int(made.get_total_count())
    tail = (1.0 - CONFIDENCE) / 4.0
    low_rank = int(binom.ppf(tail, count, percent / 100.0))
    high_rank = int(binom.isf(tail, count, percent / 100.0)) + 1
    low = _value_at_rank(made, low_rank) if low_rank >= 1 else None
    high = _value_at_rank(made, high_rank) if high_rank <= count else None
    return low, high


def _value_at_rank(made: HdrHistogram, rank: int) -> float:
    """The rank-th smallest recorded value, in milliseconds."""
    return percentile_ms(made, 100.0 * rank / made.get_total_count())
