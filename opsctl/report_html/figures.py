"""Pure: a gate's charts, each with a sentence and a table that say the same without a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opsctl.report_charts import (
    Axis,
    Band,
    Chart,
    Level,
    Line,
    linear_axis,
    log_axis,
    nines_axis,
    svg,
)
from opsctl.report_html import words
from opsctl.report_html.curves import (
    PERCENTILES,
    TABLE_ROWS_MAX,
    Distribution,
    Trace,
    distribution,
    spread_out,
    trace,
)
from opsctl.report_html.words import Gate, visible

ROOM = 1.25
"""An axis ends this much beyond the largest margin or the last bounds."""

SETTLED = 3
"""Bounds of the first third are wide and don't set an axis' ends: they are drawn to its edge."""

LOWEST_CHANGE = -100.0
"""No ratio is below 0."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading for each column; the first column names its row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A chart as SVG and in words."""

    title: str
    summary: str
    svg: str
    table: Table


def ratio_figures(gate: Gate, prefix: str) -> list[Figure]:
    """One figure for each metric whose course was kept."""
    figures = []
    for metric, entry in gate.get("metrics", {}).items():
        course = trace(entry)
        if course is not None:
            figures.append(_ratio_figure(gate, metric, course, prefix))
    return figures


def _ratio_figure(gate: Gate, metric: str, course: Trace, prefix: str) -> Figure:
    entry, label = gate["metrics"][metric], visible(words.metric_label(metric))
    tolerated, refused = words.margins(gate, metric)
    estimate, bounds = words.change(entry.get("ratio")), words.interval(entry)
    summary = f"new against old: {estimate}, 95 % confidence: {bounds}"
    x_name = "seconds since the measurement began" if course.unit == "seconds" else "pairs"
    title = f"Change of {label}"
    marks: list[Line | Band | Level] = [
        Band("band", [(x, low, high) for x, _, low, high in course.points]),
        Level("zero", 0.0, ""),
        *_margin_levels(tolerated, refused),
        Line("candidate", [(x, middle) for x, middle, _, _ in course.points]),
    ]
    chart = Chart(
        key=f"{prefix}-ratio-{_key(metric)}",
        title=title,
        description=f"{summary}. The band narrows as evidence comes in; the table has its figures.",
        x=_x_axis(x_name, course),
        y=_change_axis(course, [value for value in (tolerated, refused) if value is not None]),
        marks=marks,
    )
    return Figure(label, summary, svg(chart), _course_table(title, course))


def _margin_levels(tolerated: float | None, refused: float | None) -> Iterator[Level]:
    if tolerated is not None:
        yield Level("tolerated", tolerated, f"tolerated {words.margin(tolerated)}")
    if refused is not None:
        yield Level("refused", refused, f"refused {words.margin(refused)}")


def _x_axis(name: str, course: Trace) -> Axis:
    last = course.points[-1][0]
    return linear_axis(name, 0.0, last if last > 0 else 1.0)


def _change_axis(course: Trace, margins: Sequence[float]) -> Axis:
    """Both margins, the last estimate and the later bounds fit in; early bounds need not."""
    late = course.points[len(course.points) // SETTLED :]
    seen = [value for point in late for value in point[1:] if value is not None]
    high = max([*margins, *seen, 1.0]) * ROOM
    low = min([*seen, -high / 4]) * ROOM
    if margins:
        # Bounds that are still far away say nothing: the margins stay readable.
        reach = 3.0 * max(*margins, 1.0)
        high, low = min(high, reach), max(low, -reach)
        ends = [value for value in course.points[-1][1:] if value is not None]
        high, low = (
            max(high, *(ROOM * end for end in ends)),
            min(low, *(ROOM * end for end in ends)),
        )
    return linear_axis("", max(low, LOWEST_CHANGE), high, " %")


def _course_table(title: str, course: Trace) -> Table:
    unit = "seconds" if course.unit == "seconds" else "pairs"
    rows = [
        (
            f"{where:,.1f}" if unit == "seconds" else words.count(where),
            *(words.percent(value) for value in (middle, low, high)),
        )
        for where, middle, low, high in spread_out(course.points, TABLE_ROWS_MAX)
    ]
    return Table(title, (unit, "estimate", "low", "high"), tuple(rows))


@dataclass(frozen=True)
class Batch:
    """One batch size: both arms' figures, their curves (None when not kept), and errors."""

    size: str
    table: Table
    curves: Figure | None
    failures: tuple[str, ...]


def batches(gate: Gate, prefix: str) -> list[Batch]:
    """Every batch size of a gate, smallest first."""
    found = gate.get("batch_sizes", {})
    return [_batch(gate, size, prefix) for size in sorted(found, key=int)]


ROWS = (
    ("p50, ms", "p50_ms"),
    ("p90, ms", "p90_ms"),
    ("p99, ms", "p99_ms"),
    ("p99.9, ms", "p999_ms"),
    ("mean, ms", "mean_ms"),
)


def _batch(gate: Gate, size: str, prefix: str) -> Batch:
    arms = gate["batch_sizes"][size]
    old, new = arms.get("baseline") or {}, arms.get("candidate") or {}
    rows = [
        (
            name,
            words.digits(old.get(key)),
            words.digits(new.get(key)),
            words.change_between(old.get(key), new.get(key)),
        )
        for name, key in ROWS
    ]
    rate = "instances_per_s"
    change = words.change_between(old.get(rate), new.get(rate))
    rows.append(("instances/s", words.count(old.get(rate)), words.count(new.get(rate)), change))
    rows += [
        (key, words.count(old.get(key)), words.count(new.get(key)), "")
        for key in ("requests", "errors")
    ]
    table = Table(f"Batch size {size}", ("", "old", "new", "change"), tuple(rows))
    if not old:
        table = Table(table.caption, ("", "new"), tuple((row[0], row[2]) for row in rows))
    return Batch(size, table, _distributions(size, old, new, prefix), failures(gate, size))


def failures(gate: Gate, size: str) -> tuple[str, ...]:
    """Failed requests of a batch size by arm and by what happened, as "new: 3 × timeout"."""
    arms = gate["batch_sizes"][size]
    return tuple(
        f"{name}: {words.count(times)} × {what}"
        for name, arm in (("old", "baseline"), ("new", "candidate"))
        for what, times in sorted(((arms.get(arm) or {}).get("failures") or {}).items())
    )


def _distributions(size: str, old: Gate, new: Gate, prefix: str) -> Figure | None:
    found = {
        name: made
        for name, figures in (("baseline", old), ("candidate", new))
        if (made := distribution(figures.get("histogram") or "")) is not None
    }
    if not found:
        return None
    names = {"baseline": "old", "candidate": "new"}
    title = f"Latency distribution, batch size {size}"
    summary = "; ".join(
        f"{names[arm]}: half within {words.milliseconds(made.percentiles[50.0])}, 99 % within"
        f" {words.milliseconds(made.percentiles[99.0])}, slowest"
        f" {words.milliseconds(made.slowest_ms)}"
        for arm, made in found.items()
    )
    chart = Chart(
        key=f"{prefix}-latency-{_key(size)}",
        title=title,
        description=f"Share of requests answered within a time. {summary}.",
        x=_latency_axis(found.values()),
        y=nines_axis("", max(made.points[-1][1] for made in found.values())),
        marks=[Line(arm, made.points, steps=True) for arm, made in found.items()],
    )
    rows = tuple(
        (f"{at:g} %", *(words.milliseconds(made.percentiles[at]) for made in found.values()))
        for at in PERCENTILES
    )
    slowest = ("slowest", *(words.milliseconds(made.slowest_ms) for made in found.values()))
    columns = ("answered", *(names[arm] for arm in found))
    return Figure(title, summary, svg(chart), Table(title, columns, (*rows, slowest)))


def _latency_axis(found: Iterable[Distribution]) -> Axis:
    shown = list(found)
    low = min(made.points[0][0] for made in shown)
    high = max(made.points[-1][0] for made in shown)
    return log_axis("milliseconds from the scheduled time", low * 0.95, high * 1.05)


def _key(text: str) -> str:
    """The text as part of an element's id."""
    return "".join(sign if sign.isalnum() else "-" for sign in text)
