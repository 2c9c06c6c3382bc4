"""Trends over stored reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from opsctl.bench.history import best_split, chance_score, change_points, trend

RANDOM = np.random.default_rng(11)


def report(
    number: int, p50_ms: float, machine: str = "a", rate_per_s: float = 100.0
) -> dict[str, Any]:
    arm = {"p50_ms": p50_ms, "p99_ms": 3.0}
    return {
        "started": float(number),
        "release": f"r{number}",
        "machine": {"id": machine},
        "bench": {"path": "/", "rate_per_s": rate_per_s},
        "batch_sizes": {"1": {"candidate": arm}, "16": {"candidate": arm}},
    }


def noise(count: int) -> list[float]:
    return [float(value) for value in RANDOM.normal(0.0, 0.02, count)]


def test_a_step_is_found_where_it_happened_with_its_size() -> None:
    values = [2.0 * np.exp(e) for e in noise(10)] + [2.3 * np.exp(e) for e in noise(9)]
    found = trend([report(number, value) for number, value in enumerate(values)])
    series = found.series[0]
    assert (series.batch_size, series.metric) == ("1", "p50_ms")
    assert [change.release for change in series.changes] == ["r10"]
    assert series.changes[0].ratio == pytest.approx(1.15, abs=0.03)
    assert found.series[1].changes == ()
    assert f"    changed with r10: {series.changes[0].before_ms:.3g} → " in found.lines()[1]


def test_two_steps_up_and_down_are_both_found() -> None:
    levels = [2.0] * 8 + [3.0] * 8 + [2.0] * 8
    values = [level * np.exp(e) for level, e in zip(levels, noise(24), strict=True)]
    assert change_points(values) == [8, 16]


def test_a_level_that_goes_up_and_down_in_few_reports_is_found_each_time() -> None:
    levels = [1.0] * 4 + [1.2] * 4 + [1.0] * 4 + [1.2] * 4
    for _ in range(20):
        values = [level * np.exp(e / 2) for level, e in zip(levels, noise(16), strict=True)]
        assert change_points(values) == [4, 8, 12]


def test_three_reports_on_each_side_are_enough_for_a_clear_step() -> None:
    assert change_points([2.0, 2.02, 1.99, 2.4, 2.41, 2.39]) == [3]


def test_the_last_digit_is_no_change() -> None:
    assert change_points([2.0] * 5 + [2.001] * 5) == []
    assert change_points([2.0] * 12) == []


@pytest.mark.parametrize("count", [6, 7, 12, 40])
def test_a_split_scores_as_student_says(count: int) -> None:
    values = RANDOM.normal(0.0, 0.3, count)
    at, score = best_split(values)
    found = {
        (middle, end): stats.ttest_ind(values[:middle], values[middle:end]).pvalue
        for middle in range(3, count - 2)
        for end in range(middle + 3, count + 1)
    }
    (best, _), p = min(found.items(), key=lambda item: item[1])[0], min(found.values())
    assert at == best
    assert 2 * stats.norm.sf(score) == pytest.approx(p, rel=0.1)


@pytest.mark.parametrize("count", [6, 9, 20, 40])
def test_noise_of_any_length_passes_the_chance_score_once_in_a_hundred_times(count: int) -> None:
    passed = sum(best_split(RANDOM.normal(0, 1, count))[1] > chance_score(count)
                 for _ in range(4000))  # fmt: skip
    # 40 are expected, with a standard deviation of 6.3 and the table's own error.
    assert 12 <= passed <= 75


@pytest.mark.long
def test_noise_alone_seldom_has_a_change_point() -> None:
    false_alarms = sum(
        bool(change_points(np.exp(RANDOM.normal(0, 0.05, 20)).tolist())) for _ in range(60)
    )
    # 1 % of 60 is 0.6; 5 or more happens by chance once in 2,500 times.
    assert false_alarms <= 4


def test_one_odd_run_is_no_change() -> None:
    assert change_points([2.0, 2.01, 1.99, 2.0, 9.0, 2.02, 1.98, 2.0, 2.01]) == []


def test_few_reports_have_no_change_points() -> None:
    assert change_points([1.0, 1.0, 5.0, 5.0]) == []
    assert trend([]).series == ()


def test_reports_of_another_machine_are_left_out_and_counted() -> None:
    reports = [report(1, 2.0, machine="b"), report(3, 2.0), report(2, 2.1)]
    found = trend(reports)
    assert (found.machine, found.left_out) == ("a", 1)
    assert found.series[0].releases == ("r2", "r3")
    assert found.lines()[0] == "caution: 1 reports of other machines are left out"


def test_the_same_reports_give_the_same_trend() -> None:
    values = np.exp(RANDOM.normal(0, 0.05, 12)).tolist()
    reports = [report(number, value) for number, value in enumerate(values)]
    assert trend(reports).to_dict() == trend(reports[::-1]).to_dict()


def test_reports_under_another_load_are_left_out_and_counted() -> None:
    found = trend([report(1, 2.0, rate_per_s=50.0), report(2, 2.0), report(3, 2.1)])
    assert (found.left_out, found.other_load, found.count) == (0, 1, 2)
    assert found.series[0].releases == ("r2", "r3")
    assert found.lines()[:2] == [
        "caution: 1 reports under another load are left out",
        "batch   1 p50_ms: r2 2 r3 2.1",
    ]


def test_measurements_that_were_disturbed_are_left_out_and_counted() -> None:
    reports = [report(number, 2.0) for number in range(4)]
    reports[2] |= {"reason_kind": "environment", "reason": "busy"}
    found = trend(reports)
    assert found.series[0].releases == ("r0", "r1", "r3")
    assert (found.count, found.broken, found.to_dict()["broken"]) == (3, 1, 1)
    assert found.lines()[0] == "caution: 1 reports that failed or were disturbed are left out"
    assert trend(reports[2:3]).broken == 1
