"""Paired ratios of times: their interval, and when a bar is reached."""

import numpy as np
import pytest
from ascend_ops.paired import Ratio, ratio_of


def test_the_interval_holds_the_median_of_paired_ratios() -> None:
    before, after = np.full(31, 2.0), np.linspace(0.5, 1.5, 31)
    ratio = ratio_of(before, after)
    assert ratio.speedup == pytest.approx(2.0)
    # Order statistics 10 and 21 of 31, counted from 1: binomial, 95 %.
    assert (ratio.low, ratio.high) == pytest.approx(
        (2 / after[31 - 11], 2 / after[31 - 23]), rel=0.1
    )


def test_what_slows_both_calls_of_a_pair_changes_no_ratio() -> None:
    noise = np.random.default_rng(1).uniform(1, 50, 99)
    ratio = ratio_of(1.5 * noise, noise)
    assert [ratio.speedup, ratio.low, ratio.high] == pytest.approx([1.5] * 3)


@pytest.mark.parametrize(
    ("ratio", "bar", "verdict"),
    [
        (Ratio(1.0, 0.97, 1.1), 1.0, "reached"),
        (Ratio(1.2, 0.96, 1.3), 1.0, "near"),
        (Ratio(0.9, 0.8, 0.95), 1.0, "near"),
        (Ratio(0.89, 0.8, 0.95), 1.0, "missed"),
        (Ratio(2.1, 1.94, 2.2), 2.0, "reached"),
        (Ratio(1.79, 1.7, 1.8), 2.0, "missed"),
    ],
)
def test_a_bar_is_reached_when_the_lower_end_is_within_three_percent(
    ratio: Ratio, bar: float, verdict: str
) -> None:
    assert ratio.judge(bar) == verdict
