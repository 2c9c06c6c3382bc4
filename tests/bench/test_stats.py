"""E-values are what their formulas say, fair under swapped arms, and rarely large by chance."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from opsctl.bench import stats
from opsctl.bench.evidence import PairEvidence
from opsctl.config.settings import Gate

SUMS = st.floats(-60.0, 60.0)
SQUARES = st.floats(0.0, 500.0)
MIXTURES = st.sampled_from([0.1, 0.15, 15.0])

examples = settings(deadline=None, max_examples=40)
"""The machine may be busy, and high precision takes its time."""


@examples
@given(SUMS, SQUARES, MIXTURES)
def test_log_e_is_the_half_normal_mixture_integrated_in_high_precision(
    total: float, squares: float, mixture: float
) -> None:
    def bet(size: mpmath.mpf) -> mpmath.mpf:
        prior = 2 * mpmath.npdf(size, 0, mpmath.sqrt(mixture))
        return prior * mpmath.exp(size * total - size**2 * squares / 2)

    with mpmath.workdps(25):
        k = 1 / mpmath.mpf(mixture) + mpmath.mpf(squares)
        top, width = total / k, 1 / mpmath.sqrt(k)
        points = sorted(
            {mpmath.mpf(0), *(max(0, top + step * width) for step in (-16, -6, 0, 6, 16))}
        )
        exact = mpmath.log(mpmath.quad(bet, [*points, points[-1] + 40 * width]))
    assert stats.log_e(total, squares, mixture) == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


def test_arrays_of_e_values_equal_single_ones() -> None:
    totals, squares = np.array([-3.0, 0.0, 8.5]), np.array([1.0, 0.0, 40.0])
    single = [stats.log_e(t, s, 0.1) for t, s in zip(totals, squares, strict=True)]
    assert stats.log_e_array(totals, squares, 0.1).tolist() == pytest.approx(single, rel=1e-12)


@examples
@given(st.integers(0, 40), st.integers(0, 40))
def test_discordant_errors_are_the_truncated_beta_binomial_mixture(first: int, second: int) -> None:
    with mpmath.workdps(40):
        density = mpmath.quad(
            lambda p: p ** (1 + first) * (1 - p) ** (1 + second), [0.5, 0.6, 0.75, 0.9, 1]
        )
        prior = mpmath.quad(lambda p: p * (1 - p), [0.5, 1])
        exact = mpmath.log(density / prior * mpmath.mpf(2) ** (first + second))
    assert stats.log_e_discordant(first, second) == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@examples
@given(st.lists(st.sampled_from([1, 0, -1]), max_size=60), st.booleans())
def test_a_rate_is_judged_by_the_capital_of_its_bets(values: list[int], above: bool) -> None:
    limit, sign = 0.01, (1 if above else -1)
    capital = mpmath.mpf(0)
    for share, weight in stats.RATE_BETS:
        grown = mpmath.mpf(weight)
        for value in values:
            grown *= 1 + sign * share / (1 + sign * limit) * (value - limit)
        capital += grown
    if capital <= 0:
        return
    got = stats.log_e_rate(values.count(1), values.count(-1), len(values), limit, above=above)
    assert got == pytest.approx(float(mpmath.log(capital)), rel=1e-9, abs=1e-9)


@examples
@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, math.inf]), min_size=2, max_size=40))
def test_equal_latencies_and_errors_share_their_rank(values: list[float]) -> None:
    expected = (rankdata(values) - 0.5) / len(values)
    assert stats.ranks(np.array([values]))[0].tolist() == pytest.approx(expected.tolist())


@examples
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.99]), st.sampled_from([1.0, 2.0, 0.25]))
def test_swapping_the_arms_turns_every_difference_around(
    seed: int, quantile: float, ratio: float
) -> None:
    random = np.random.default_rng(seed)
    first, second = random.lognormal(0, 0.3, (2, 3, 50))
    second[0, :2] = np.inf
    there = stats.differences(first, second, ratio, quantile)
    back = stats.differences(second, first, 1.0 / ratio, quantile)
    assert there.tolist() == (-back).tolist()


@examples
@given(st.integers(0, 2**32 - 1))
def test_swapped_arms_swap_the_evidence(seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = random.lognormal(0, 0.3, (2, 500))
    same = Gate(
        tolerated_p50_percent=0, refused_p50_percent=0,
        tolerated_p99_percent=0, refused_p99_percent=0,
    )  # fmt: skip
    one, other = PairEvidence(same, (1,)), PairEvidence(same, (1,))
    one.add(1, pairs[0].tolist(), pairs[1].tolist())
    other.add(1, pairs[1].tolist(), pairs[0].tolist())
    for metric in ("p50:1", "p99"):
        assert one.log_e_fail()[metric] == pytest.approx(other.log_e_pass()[metric], abs=1e-12)


RUNS, BLOCKS, PAIRS = 2000, 40, 25


def null_paths(quantile: float, mixture: float) -> np.ndarray:
    """E-values after each block, when both arms draw alike from a machine that drifts, with heavy
    tails, and shares its disturbances within a pair."""
    random = np.random.default_rng(20261130)
    shape = (RUNS, BLOCKS * PAIRS)
    drift = np.exp(np.cumsum(random.normal(0, 0.02, shape), axis=1))
    first, second = (drift * random.pareto(1.5, shape) for _ in range(2))
    blocks = (RUNS * BLOCKS, PAIRS)
    d = stats.differences(first.reshape(blocks), second.reshape(blocks), 1.0, quantile)
    total = np.cumsum(d.sum(axis=1).reshape(RUNS, BLOCKS), axis=1)
    squares = np.cumsum((d**2).sum(axis=1).reshape(RUNS, BLOCKS), axis=1)
    return np.exp(stats.log_e_array(total, squares, mixture))


@pytest.mark.parametrize(("quantile", "mixture"), [(0.5, 0.1), (0.96, 0.15)])
def test_under_the_null_e_values_do_not_grow_and_seldom_cross(
    quantile: float, mixture: float
) -> None:
    paths = null_paths(quantile, mixture)
    means = paths.mean(axis=0)
    errors = paths.std(axis=0) / math.sqrt(RUNS)
    assert (means <= 1.0 + 4.0 * errors).all()
    crossed = float((paths.max(axis=1) >= 20.0).mean())
    assert crossed <= 1 / 20


def test_pairs_to_see_is_near_what_it_takes() -> None:
    random = np.random.default_rng(1)
    planned = stats.pairs_to_see(0.05, 0.015, 0.2, 0.01 * 0.6)
    taken = []
    for _ in range(60):
        first, second = random.lognormal(0, 0.2, (2, 160, 25))
        d = stats.differences(first, 1.05 * second, 1.015, 0.5)
        path = stats.log_e_array(np.cumsum(d.sum(1)), np.cumsum((d**2).sum(1)), 0.1)
        taken.append(25 * (1 + int(np.argmax(path >= math.log(1 / 0.006)))))
    assert 0.5 * planned <= float(np.median(taken)) <= 1.5 * planned


def test_nothing_can_be_seen_that_is_tolerated() -> None:
    with pytest.raises(ValueError, match="not above what is tolerated"):
        stats.pairs_to_see(0.01, 0.015, 0.2, 0.01)


def test_spread_of_log_latency_is_robust_against_errors_and_spikes() -> None:
    values = np.random.default_rng(2).lognormal(0.0, 0.2, 20000)
    values[::100] = np.inf
    values[1::100] *= 50.0
    assert stats.spread(values) == pytest.approx(0.2, rel=0.05)
    assert math.isnan(stats.spread(np.array([1.0, np.inf])))
