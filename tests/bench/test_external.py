"""Verdicts on values of a service's own metrics."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from opsctl.bench.external import Bounds, Metric
from opsctl.config.settings import PrometheusQuery

BOUNDS = Bounds(weight=0.1, total_alpha=0.01, beta=0.03)
QUERY = PrometheusQuery(name="queue", query="q")

Given = Sequence[float | None]
Values = list[float | None]


def judged(
    query: PrometheusQuery, old: Given, new: Given, *, compared: bool = True
) -> tuple[str, str]:
    """Outcome and kind of reason at the end of the time."""
    metric = Metric(query, BOUNDS, compared)
    metric.take(old if compared else (), new)
    verdict = metric.close()
    return verdict.outcome, verdict.kind


def test_equal_values_pass_after_twelve_and_not_before() -> None:
    metric = Metric(QUERY, BOUNDS, compared=True)
    metric.take([4.0] * 11, [4.0] * 11)
    assert metric.look() is None
    metric.take([4.0], [4.0])
    verdict = metric.look()
    assert verdict is not None and verdict.outcome == "pass"


@pytest.mark.parametrize(
    ("better", "old", "new", "outcome"),
    [
        ("lower", 4.0, 6.0, "fail"),
        ("lower", 6.0, 4.0, "pass"),
        ("higher", 6.0, 4.0, "fail"),
        ("higher", 4.0, 6.0, "pass"),
        ("lower", 0.0, 0.0, "pass"),
        ("higher", 0.0, 0.0, "pass"),
        ("lower", 0.0, 1.0, "fail"),
        ("higher", 1.0, 0.0, "fail"),
        ("lower", 1.0, 0.0, "pass"),
        ("lower", 100.0, 110.0, "fail"),  # constant: proved to be more than is tolerated
        ("lower", 100.0, 104.0, "pass"),
    ],
)
def test_the_better_direction_and_zeros_are_judged_rightly(
    better: str, old: float, new: float, outcome: str
) -> None:
    query = PrometheusQuery(name="x", query="q", better=better)
    assert judged(query, [old] * 24, [new] * 24)[0] == outcome


def test_noise_between_the_margins_is_unsettled_and_few_values_are_want_of_power() -> None:
    old: Values = [80.0, 90.0, 100.0, 110.0, 120.0] * 3
    new: Values = [132.0, 90.0, 110.0, 99.0, 121.0] * 3
    assert judged(QUERY, old, new) == ("inconclusive", "unsettled")
    assert judged(QUERY, [4.0] * 8, [4.0] * 8) == ("inconclusive", "power")


@pytest.mark.parametrize("flaw", [None, math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize("arm", ["old", "new", "both"])
def test_values_that_are_none_decide_nothing(flaw: float | None, arm: str) -> None:
    good: Values = [4.0] * 30
    bad: Values = [flaw] * 30
    old, new = (bad if arm in ("old", "both") else good), (bad if arm in ("new", "both") else good)
    assert judged(QUERY, old, new) == ("no_data", "no_answer")


def test_a_fifth_of_the_values_may_be_missing_and_more_may_not() -> None:
    good: Values = [4.0] * 30
    assert judged(QUERY, good, [*[None] * 6, *good[6:]])[0] == "pass"
    assert judged(QUERY, good, [*[None] * 7, *good[7:]])[0] == "no_data"


@pytest.mark.parametrize("old", [4.0, math.nan, None, 0.0])
def test_an_absolute_limit_fails_whatever_the_baseline_has(old: float | None) -> None:
    query = PrometheusQuery(name="errors", query="q", most=1.0)
    assert judged(query, [old] * 30, [4.0] * 30) == ("fail", "slo")
    assert judged(query, [old] * 30, [math.inf] * 30) == ("fail", "slo")


def test_limits_alone_judge_a_first_deploy() -> None:
    query = PrometheusQuery(name="hits", query="q", least=0.5, most=0.9)
    assert judged(query, [], [0.7] * 20, compared=False) == ("pass", "proved")
    assert judged(query, [], [0.4] * 30, compared=False) == ("fail", "slo")
    assert judged(query, [], [0.95] * 30, compared=False) == ("fail", "slo")
    assert judged(query, [], [], compared=False) == ("no_data", "no_answer")


def test_without_values_early_the_time_is_not_waited_out() -> None:
    metric = Metric(QUERY, BOUNDS, compared=True)
    metric.take([4.0] * 11, [None] * 11)
    assert metric.look() is None
    metric.take([4.0], [None])
    verdict = metric.look()
    assert verdict is not None and verdict.outcome == "no_data"
    assert verdict.reason == (
        "queue has too few values: 12 of 12 values of the candidate: no sample (is it scraped, do"
        " the labels fit?)"
    )


def test_equal_noisy_arms_hardly_ever_fail_at_any_of_many_looks() -> None:
    """The bound is alpha (here 5 %) over all looks together, by simulation with a fixed seed."""
    chance = random.Random(7)
    bounds, runs, failed = Bounds(weight=1.0, total_alpha=0.05, beta=0.03), 200, 0
    query = PrometheusQuery(name="x", query="q", tolerated_percent=0.0)
    for _ in range(runs):
        metric = Metric(query, bounds, compared=True)
        for _ in range(15):
            metric.take(
                [chance.lognormvariate(0, 0.3) for _ in range(4)],
                [chance.lognormvariate(0, 0.3) for _ in range(4)],
            )
            verdict = metric.look()
            if verdict is not None and verdict.outcome == "fail":
                failed += 1
                break
    assert failed <= 0.05 * runs


def test_the_report_has_values_bounds_and_the_query() -> None:
    metric = Metric(QUERY, BOUNDS, compared=True)
    metric.take([4.0, None, *[4.0] * 14], [6.0, math.nan, *[6.0] * 14])
    found = metric.report([float(second) for second in range(16)])
    assert found["ratio"] == pytest.approx(1.5, rel=0.01)
    assert found["values"]["candidate"][:3] == [6.0, "nan", 6.0]
    assert found["values"]["baseline"][:3] == [4.0, None, 4.0]
    assert [point["seconds"] for point in found["over_time"]] == [4.0, 8.0, 12.0]
