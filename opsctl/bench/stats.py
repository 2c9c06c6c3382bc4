"""Sequential statistics of the gate: pure functions, valid at every look.

A *pair* is one request to the baseline (A) and one to the candidate (B), in an order that a coin
decides. Under the hypothesis "B is r times as slow as A" the labels of A and B/r can be swapped
inside a pair without changing anything, so a pair's difference d of scores has a symmetric sign.
cosh(x) <= exp(x^2/2) makes exp(lambda*S - lambda^2*V/2), S = sum d, V = sum d^2, a test
supermartingale; averaging it over a half-normal lambda gives `log_e` (Howard, Ramdas, McAuliffe
and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021, section 3).
An e-value of 1/alpha or more, at any time, happens with probability alpha at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, log_ndtr

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]

RATE_BETS = ((0.99, 0.5), (0.5, 0.25), (0.25, 0.15), (0.1, 0.1))
"""Bets (fraction of the largest safe one, prior weight) of `log_e_rate`.

Half of the weight is on the bet that wins fastest when there is no error at all, which is what a
healthy service shows; the rest keeps some power when there are a few.
"""

DISCORDANT_PRIOR = 2.0
"""Beta(2, 2) prior of the candidate's share of one-sided errors: a mild pull to 1/2."""


def log_e(total: float, squares: float, mixture: float) -> float:
    """Log of the one-sided e-value for "the differences lean upwards".

    `total` is the sum of the pairs' differences, `squares` the sum of their squares, `mixture`
    the variance of the half-normal prior of lambda (small: tuned for long runs).
    """
    k = 1.0 / mixture + squares
    return (
        math.log(2.0)
        - 0.5 * math.log(mixture * k)
        + total * total / (2.0 * k)
        + float(log_ndtr(total / math.sqrt(k)))
    )


def log_e_array(total: Floats, squares: Floats, mixture: float) -> Floats:
    """`log_e` for arrays of sums."""
    k = 1.0 / mixture + squares
    result: Floats = (math.log(2.0) - 0.5 * np.log(mixture * k) + total**2 / (2.0 * k)) + log_ndtr(
        total / np.sqrt(k)
    )
    return result


def ranks(pooled: Floats) -> Floats:
    """Ranks along the last axis as shares in (0, 1); equal values share their mean rank.

    Errors are infinite and so rank last, all alike.
    """
    flat = pooled.reshape(-1, pooled.shape[-1])
    size = flat.shape[1]
    order = np.argsort(flat, axis=1, kind="stable")
    ordered = np.take_along_axis(flat, order, axis=1)
    places = np.tile(np.arange(size, dtype=np.float64) + 0.5, (flat.shape[0], 1))
    for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
        values = ordered[row]
        first = np.searchsorted(values, values, side="left")
        last = np.searchsorted(values, values, side="right")
        places[row] = (first + last) / 2.0
    result = np.empty_like(places)
    np.put_along_axis(result, order, places, axis=1)
    return (result / size).reshape(pooled.shape)


def differences(baseline: Floats, candidate: Floats, ratio: float, quantile: float) -> Floats:
    """Score differences of the pairs of blocks, shape (blocks, pairs) in and out.

    A block's latencies (the candidate's divided by `ratio`) are pooled and ranked together. For
    the median the score is the rank itself; for a higher `quantile` it is 1 above it, else 0.
    """
    pairs = baseline.shape[-1]
    place = ranks(np.concatenate([baseline, candidate / ratio], axis=-1))
    score = place if quantile == 0.5 else (place > quantile).astype(np.float64)
    result: Floats = score[..., pairs:] - score[..., :pairs]
    return result


@dataclass
class Sums:
    """Running sums of differences: all that an e-value needs."""

    total: float = 0.0
    squares: float = 0.0

    def add(self, values: Floats) -> None:
        self.total += float(values.sum())
        self.squares += float(np.dot(values, values))

    def log_e_above(self, mixture: float) -> float:
        """Evidence that the candidate is slower than the ratio the sums were made for."""
        return log_e(self.total, self.squares, mixture)

    def log_e_below(self, mixture: float) -> float:
        """Evidence that the candidate is faster than that ratio."""
        return log_e(-self.total, self.squares, mixture)


def log_e_discordant(candidate_only: int, baseline_only: int) -> float:
    """Log e-value for "an error that hits one arm of a pair hits the candidate more often".

    Beta-binomial mixture truncated to shares above 1/2, against a share of 1/2 or less: errors of
    the machine hit both arms alike, whatever their rate and timing.
    """
    prior = DISCORDANT_PRIOR
    upper = betainc(prior + baseline_only, prior + candidate_only, 0.5)
    if upper <= 0.0:
        return -math.inf
    posterior = betaln(prior + candidate_only, prior + baseline_only) + math.log(upper)
    before = betaln(prior, prior) + math.log(0.5)
    count = candidate_only + baseline_only
    return float(posterior - before + count * math.log(2.0))


def log_e_rate(ups: int, downs: int, count: int, limit: float, *, above: bool) -> float:
    """Log e-value that the mean of values in {+1, 0, -1} is above (or below) `limit`.

    Of `count` values `ups` were +1 and `downs` were -1. Betting martingale of Waudby-Smith and
    Ramdas ("Estimating means of bounded random variables by betting", 2024), averaged over the
    fixed bets of `RATE_BETS`.
    """
    sign = 1.0 if above else -1.0
    worst = (1.0 + limit) if above else (1.0 - limit)
    terms = []
    for share, weight in RATE_BETS:
        bet = sign * share / worst
        logs = (
            ups * _log(1.0 + bet * (1.0 - limit))
            + downs * _log(1.0 + bet * (-1.0 - limit))
            + (count - ups - downs) * _log(1.0 - bet * limit)
        )
        terms.append(math.log(weight) + logs)
    return float(np.logaddexp.reduce(terms))


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def log_weighted_sum(logs: list[float], weights: list[float]) -> float:
    """Log of a weighted sum of e-values, itself an e-value when the weights sum to 1 or less
    (Vovk and Wang, "E-values: calibration, combination and applications", 2021)."""
    return float(
        np.logaddexp.reduce([log + math.log(w) for log, w in zip(logs, weights, strict=True)])
    )


def spread(latencies: Floats) -> float:
    """Robust standard deviation of log latency: interquartile range / 1.349 (normal scaling)."""
    finite = latencies[np.isfinite(latencies)]
    if finite.size < 4:
        return math.nan
    low, high = np.quantile(np.log(finite), [0.25, 0.75])
    return float((high - low) / 1.349)


def pairs_to_see(effect: float, tolerated: float, sigma: float, alpha: float) -> int:
    """Pairs after which a slowdown by `effect` will typically be proved.

    `effect` and `tolerated` are shares (0.05 for 5 %), `alpha` the metric's own share of the
    error bound. Growth rate of the e-process: (signal / noise)^2 / 2 a pair; the 2 nats extra are
    the mixture's price and the wait beyond the median.
    """
    distance = math.log((1.0 + effect) / (1.0 + tolerated))
    if distance <= 0.0:
        raise ValueError(f"effect {effect} is not above what is tolerated, {tolerated}")
    return math.ceil(2.0 * (math.log(1.0 / alpha) + 2.0) * 2.0 * sigma**2 / distance**2)
