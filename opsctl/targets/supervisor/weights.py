"""Integer weights for HAProxy that give each release its percentage; pure."""

from __future__ import annotations

from collections.abc import Mapping

WEIGHT_MAX = 256
"""HAProxy's largest server weight (configuration manual, `weight`)."""


def server_weights(percents: Mapping[str, int], replicas: Mapping[str, int]) -> dict[str, int]:
    """Weight of each replica of each release, so that releases get `percents` of the traffic.

    `percents` sum to 100 over the releases with traffic; each of those has ≥ 1 replica.
    All weights that round best to a common scale are tried and the smallest one with the least
    largest error is taken (best rational approximation by search; 256 scales at most).
    """
    sharing = {name: percent for name, percent in percents.items() if percent > 0}
    if not sharing:
        return {}
    each = {name: percent / replicas[name] for name, percent in sharing.items()}
    heaviest = max(each.values())
    best: dict[str, int] = {}
    best_error = float("inf")
    for scale in range(1, WEIGHT_MAX + 1):
        tried = {name: max(1, round(scale * part / heaviest)) for name, part in each.items()}
        error = _largest_error(tried, sharing, replicas)
        if error < best_error - 1e-9:
            best, best_error = tried, error
    return best


def _largest_error(
    weights: Mapping[str, int], percents: Mapping[str, int], replicas: Mapping[str, int]
) -> float:
    """Largest difference, in percent points, between wanted and given shares."""
    total = sum(weight * replicas[name] for name, weight in weights.items())
    return max(
        abs(100 * weights[name] * replicas[name] / total - percent)
        for name, percent in percents.items()
    )
