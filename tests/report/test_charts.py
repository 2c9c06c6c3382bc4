"""Axes, curves and what is left of a distribution when it is thinned."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from opsctl.bench.figures import histogram
from opsctl.report_charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Band,
    Chart,
    Level,
    Line,
    linear_axis,
    log_axis,
    nines,
    nines_axis,
    svg,
)
from opsctl.report_html import words
from opsctl.report_html.curves import POINTS_MAX, distribution, spread_out, thinned, trace
from tests.report.document import parse

AXIS = linear_axis("x", 0.0, 100.0)


def paths(*marks: Line | Band | Level) -> dict[str, str]:
    picture = parse(svg(Chart("k", "t", "d", AXIS, AXIS, marks)))
    return {one.attributes["class"]: one.attributes["d"] for one in picture.all("path")}


def test_a_line_goes_from_corner_to_corner() -> None:
    line = paths(Line("candidate", [(0.0, 0.0), (100.0, 100.0)]))["candidate"]
    assert line == f"M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}"


def test_a_line_breaks_where_nothing_is_known() -> None:
    points = [(0.0, 0.0), (20.0, None), (40.0, 50.0), (60.0, 50.0)]
    assert re.sub(r"[\d. ]", "", paths(Line("candidate", points))["candidate"]) == "MML"


def test_steps_stay_until_the_next_value() -> None:
    line = paths(Line("old", [(0.0, 0.0), (100.0, 100.0)], steps=True))["old"]
    assert line == f"M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}V{TOP}"


def test_an_unknown_bound_reaches_the_edge_of_the_chart() -> None:
    band = paths(Band("band", [(0.0, None, None), (100.0, 0.0, 50.0)]))["band"]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    assert band == f"M{LEFT} {TOP}L{right} {middle:g}L{right} {bottom}L{LEFT} {bottom}Z"


def feet(*values: float) -> list[float]:
    """How far down the labels of levels stand, by their order."""
    levels = [Level("limit", value, f"at {value:g}") for value in values]
    picture = parse(svg(Chart("k", "t", "d", AXIS, AXIS, [Level("zero", 0.0, ""), *levels])))
    stands = {one.text: float(one.attributes["y"]) for one in picture.all("text")}
    return [stands[level.label] for level in levels]


def test_a_label_stands_above_its_line_where_neither_a_line_nor_a_label_crosses_it() -> None:
    # 100 % are 180 units: the line at 10 is 172 from the top, that at 14 is at 164.8.
    assert feet(10.0, 50.0) == feet(50.0, 10.0)[::-1] == [168.0, 96.0]
    assert feet(10.0, 14.0) == [160.8, 148.8]
    assert feet(10.0, 20.0) == [168.0, 150.0]


def test_what_lies_outside_is_drawn_at_the_edge() -> None:
    assert paths(Level("refused", 1e9, ""))["refused"] == f"M{LEFT} {TOP}H{WIDTH - RIGHT}"


def test_ticks_are_round_numbers_within_the_axis() -> None:
    assert [label for _, label in linear_axis("", -18.75, 50.0, " %").ticks] == [
        *("0 %", "20 %", "40 %"),
    ]
    assert [label for _, label in linear_axis("", 0.0, 48_000.0).ticks] == [
        *("0", "10,000", "20,000", "30,000", "40,000"),
    ]
    assert [label for _, label in linear_axis("", -1.2, 1.2).ticks] == [
        *("-1.0", "-0.5", "0.0", "0.5", "1.0"),
    ]
    assert [value for value, _ in log_axis("", 0.4, 5000.0).ticks] == [1.0, 10.0, 100.0, 1000.0]
    assert [label for _, label in log_axis("", 3.0, 40.0).ticks] == ["5", "10", "20"]
    assert [value for value, _ in log_axis("", 2.2, 5.1).ticks] == [3.0, 4.0, 5.0]


def test_the_last_label_stays_within_the_picture() -> None:
    axis = linear_axis("x", 0.0, 40_000.0)
    picture = parse(svg(Chart("k", "t", "d", axis, AXIS, [])))
    anchors = {one.text: one.attributes for one in picture.all("text")}
    assert anchors["40,000"]["text-anchor"] == "end"
    assert anchors["40,000"]["x"] == str(WIDTH)
    assert anchors["30,000"]["text-anchor"] == "middle"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-9), (1.0, 1.0001), (-5e6, 9e9), (0.0, 0.5)])
def test_any_range_has_a_few_ticks(low: float, high: float) -> None:
    assert 2 <= len(linear_axis("", low, high).ticks) <= 8


def test_each_nine_of_a_share_gets_the_same_room() -> None:
    assert [round(nines(share), 9) for share in (0.0, 0.9, 0.99, 0.999)] == [0, 1, 2, 3]
    axis = nines_axis("", 0.9999)
    assert [label for _, label in axis.ticks] == ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
    assert axis.part(0.99) == pytest.approx(0.5)
    assert [label for _, label in nines_axis("", 0.99).ticks] == ["0 %", "50 %", "90 %", "99 %"]


def test_a_distribution_is_what_was_recorded() -> None:
    latencies = np.random.default_rng(3).lognormal(-6, 0.4, 20_000)
    made = distribution(histogram(latencies.tolist(), 5.0).encode().decode())
    assert made is not None
    for percent, value in made.percentiles.items():
        true = 1000 * float(np.quantile(latencies, percent / 100, method="inverted_cdf"))
        assert value == pytest.approx(true, rel=2e-3)
    assert made.slowest_ms == pytest.approx(1000 * latencies.max(), rel=2e-3)
    assert len(made.points) <= POINTS_MAX
    for value, share in made.points[1:-1]:
        true_share = float((latencies <= value / 1000).mean())
        assert share == pytest.approx(true_share, abs=2e-3)
    assert made.points[-1][0] == pytest.approx(made.slowest_ms, rel=2e-3)
    assert made.points[-1][1] == 1 - 0.5 / 20_000


@pytest.mark.parametrize("text", ["", "HISTFAAAA", "HISTFAAAAch4nD2Ss", "no base64!", "AAAA"])
def test_a_damaged_histogram_is_none(text: str) -> None:
    assert distribution(text) is None


def test_an_empty_histogram_is_none() -> None:
    assert distribution(histogram([], 5.0).encode().decode()) is None


def test_thinning_keeps_both_ends_and_the_tail() -> None:
    points = [(float(n), n / 100_000) for n in range(1, 100_000)]
    kept = thinned(points)
    assert len(kept) <= POINTS_MAX
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert sum(share > 0.99 for _, share in kept) > POINTS_MAX / 3


def test_few_are_spread_over_many_with_the_last_among_them() -> None:
    assert spread_out(range(5), 12) == [0, 1, 2, 3, 4]
    assert spread_out(range(101), 5) == [0, 25, 50, 75, 100]


def test_a_course_is_in_percent_and_keeps_unknown_bounds() -> None:
    point = {"ratio": 1.05, "low": None, "high": 1.5, "seconds": 2.0}
    course = trace({"over_time": [point, {**point, "seconds": None}]})
    assert course is not None
    (only,) = course.points
    assert (course.unit, only[0], only[2]) == ("seconds", 2.0, None)
    assert only[1] == pytest.approx(5.0) and only[3] == pytest.approx(50.0)
    assert trace({}) is None and trace({"over_time": []}) is None


def test_figures_are_spelled_for_people() -> None:
    blank = words.NARROW
    assert words.change(1.0004) == f"+0.0{blank}%"
    assert words.change(0.9999) == f"+0.0{blank}%"
    assert words.change(0.5) == f"-50.0{blank}%"
    assert (words.change(1268.0), words.change(None)) == ("×1,268", "–")
    assert words.milliseconds(0.1234) == f"0.12{blank}ms"
    assert words.milliseconds(1234.5) == f"1,234{blank}ms"
    assert words.interval({"low": None, "high": 1.1}) == f"at most +10.0{blank}%"
    assert words.interval({"low": 0.9, "high": None}) == f"at least -10.0{blank}%"
    assert words.interval({}) == "no bounds yet"
    assert words.threshold({"gate": {"alpha": 0.01}}, "alpha") == f"{math.log(100):.2f}"
    assert words.sentence("r12 is late") == "r12 is late."
    assert words.sentence("the disk is full!") == "The disk is full!"
