"""Pure: charts as SVG, made by hand: no script, no font and no image from anywhere.

A chart's colours come from the classes of the page it stands in, so that it follows dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 230
"""Units of the view box: about the pixels of a phone's column, so that text keeps its size."""

LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 40
"""Room for labels around the plot."""

LETTER = 7
"""Width of a digit at the size of the labels, at most."""

LINE, GAP = 12, 4
"""Height of a label, and how far it stands above its line."""

TICKS_ABOUT = 6

FEW_NINES = 3.5

Point = tuple[float, float]
Stretch = Callable[[float], float]


def plain(value: float) -> float:
    """A linear axis."""
    return value


def nines(share: float) -> float:
    """How many nines a share has: 0.9 → 1, 0.99 → 2. The tail of a distribution gets room so."""
    return -math.log10(max(1e-12, 1.0 - share))


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, with labelled ticks; values outside are drawn at the edge."""

    name: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    stretch: Stretch = plain

    def part(self, value: float) -> float:
        """Where a value lies: 0 at the axis' low end, 1 at its high end."""
        low, high = self.stretch(self.low), self.stretch(self.high)
        inside = min(max(value, self.low), self.high)
        return (self.stretch(inside) - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True)
class Line:
    """A curve; it breaks where y is None. With `steps` y stays as it was until the next x."""

    css: str
    points: Sequence[tuple[float, float | None]]
    steps: bool = False


@dataclass(frozen=True)
class Band:
    """An area from low to high; None is beyond the axis."""

    css: str
    points: Sequence[tuple[float, float | None, float | None]]


@dataclass(frozen=True)
class Level:
    """A value that matters, across the whole chart."""

    css: str
    value: float
    label: str


@dataclass(frozen=True)
class Chart:
    """`key` is unique on its page; title and description are read out instead of the picture."""

    key: str
    title: str
    description: str
    x: Axis
    y: Axis
    marks: Sequence[Line | Band | Level]


def svg(chart: Chart) -> str:
    """The chart as an SVG element. All text is escaped."""
    key = escape(chart.key, quote=True)
    box, named = f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'aria-labelledby="{key}-title {key}-desc"'
    parts = [
        f'<svg class="chart" {box} role="img" {named}>',
        f'<title id="{key}-title">{escape(chart.title)}</title>',
        f'<desc id="{key}-desc">{escape(chart.description)}</desc>',
        *_grid(chart),
        *(_mark(chart, mark) for mark in chart.marks if not isinstance(mark, Level)),
        *_levels(chart, [mark for mark in chart.marks if isinstance(mark, Level)]),
        "</svg>",
    ]
    return "\n".join(parts)


def _grid(chart: Chart) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, label in chart.y.ticks:
        y = _y(chart, value)
        yield f'<path class="grid" d="M{LEFT} {y}H{right}"/>'
        yield _text(LEFT - 6, y + 4, label, "end")
    for value, label in chart.x.ticks:
        x = _x(chart, value)
        yield f'<path class="grid" d="M{x} {TOP}V{bottom}"/>'
        # The last label would leave the picture if it stood below the middle of its tick.
        out = x + LETTER * len(label) / 2 > WIDTH
        yield _text(WIDTH if out else x, bottom + 15, label, "end" if out else "middle")
    yield f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    yield _text((LEFT + right) / 2, HEIGHT - 6, chart.x.name, "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{_short(x)}" y="{_short(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def _mark(chart: Chart, mark: Line | Band) -> str:
    if isinstance(mark, Line):
        return f'<path class="{escape(mark.css)}" d="{_line(chart, mark)}"/>'
    return f'<path class="{escape(mark.css)}" d="{_band(chart, mark)}"/>'


def _line(chart: Chart, line: Line) -> str:
    path, down = [], False
    for x, y in line.points:
        if y is not None:
            right, up = _x(chart, x), _y(chart, y)
            corner = f"H{right}V{up}" if line.steps else f"L{right} {up}"
            path.append(corner if down else f"M{right} {up}")
        down = y is not None
    return "".join(path)


def _band(chart: Chart, band: Band) -> str:
    low, high = chart.y.low, chart.y.high
    above = [(x, high if up is None else up) for x, _, up in band.points]
    below = [(x, low if down is None else down) for x, down, _ in band.points]
    corners = [f"{_x(chart, x)} {_y(chart, y)}" for x, y in [*above, *reversed(below)]]
    return f"M{'L'.join(corners)}Z" if corners else ""


def _levels(chart: Chart, levels: Sequence[Level]) -> Iterator[str]:
    """The lines, and each one's label above it: so high that neither another line nor the label
    before crosses it."""
    lines = {level: _y(chart, level.value) for level in levels}
    taken = float(HEIGHT)
    for level in sorted(levels, key=lambda one: one.value):
        yield f'<path class="{escape(level.css)}" d="M{LEFT} {lines[level]}H{WIDTH - RIGHT}"/>'
        if not level.label:
            continue
        foot = min(lines[level] - GAP, taken - LINE)
        for other in sorted(lines.values(), reverse=True):
            if foot - LINE < other < foot:
                foot = other - GAP
        taken = foot
        yield _text(WIDTH - RIGHT - 2, foot, level.label, "end")


def _x(chart: Chart, value: float) -> float:
    return _short(LEFT + chart.x.part(value) * (WIDTH - LEFT - RIGHT))


def _y(chart: Chart, value: float) -> float:
    return _short(HEIGHT - BOTTOM - chart.y.part(value) * (HEIGHT - TOP - BOTTOM))


def _short(value: float) -> float:
    """Tenths of a unit are finer than a screen; whole numbers are spelled as such."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def linear_axis(name: str, low: float, high: float, suffix: str = "") -> Axis:
    """An axis with ticks at multiples of 1, 2 or 5 times a power of ten, within the ends."""
    step = _step((high - low) / TICKS_ABOUT)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    values = [number * step for number in range(first, last + 1)]
    return Axis(name, low, high, tuple((v, f"{v + 0.0:,.{digits}f}{suffix}") for v in values))


def _step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next((m * power for m in (1, 2, 5, 10) if m * power >= least * 0.999), power)


def log_axis(name: str, low: float, high: float) -> Axis:
    """An axis of powers of ten, with ticks between them where there are few; 0 < low < high."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    width = math.log10(high / low)
    steps = (1, 2, 3, 4, 5, 7) if width < 0.8 else (1, 2, 5) if width < 2.3 else (1,)
    values = [m * 10.0**power for power in decades for m in steps]
    ticks = tuple((value, f"{value:g}") for value in values if low <= value <= high)
    return Axis(name, low, high, ticks, math.log10)


def nines_axis(name: str, high: float) -> Axis:
    """From no request to `high` (below 1) of them, with the tail stretched."""
    shares = (
        *((0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %")),
        *((0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")),
    )
    # Where there are many nines, none and half of the requests are too near to label both.
    first = 1 if nines(high) > FEW_NINES else 0
    ticks = tuple((share, label) for share, label in shares[first:] if share <= high)
    return Axis(name, 0.0, high, ticks, nines)
