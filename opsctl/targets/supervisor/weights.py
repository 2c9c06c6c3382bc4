"""Integer weights for HAProxy that give each release its percentage; pure."""

from __future__ import annotations

from collections.abc import Mapping

WEIGHT_MAX = 256
"""HAProxy's largest server weight (configuration manual, `weight`)."""


def server_weights(
    percents: Mapping[str, int], replicas: Mapping[str, int]
) -> dict[str, list[int]]:
    """Weights of the replicas of each release, so that releases get `percents` of the traffic.

    `percents` sum to 100 over the releases with traffic; each of those has ≥ 1 replica. All
    weights that round best to a common scale are tried, and the smallest ones with the least
    largest error are taken (best rational approximation by search over 256 scales). A release
    whose share is too small for a weight of 1 on each of its replicas uses fewer of them.
    """
    sharing = {name: percent for name, percent in percents.items() if percent > 0}
    if not sharing:
        return {}
    heaviest = max(percent / replicas[name] for name, percent in sharing.items())
    carriers = {
        name: max(1, min(replicas[name], int(percent * WEIGHT_MAX / heaviest)))
        for name, percent in sharing.items()
    }
    each = _best(sharing, carriers)
    return {
        name: [weight] * carriers[name] + [0] * (replicas[name] - carriers[name])
        for name, weight in each.items()
    }


def _best(percents: Mapping[str, int], carriers: Mapping[str, int]) -> dict[str, int]:
    """The weight of one carrier of each release."""
    parts = {name: percent / carriers[name] for name, percent in percents.items()}
    heaviest = max(parts.values())
    best: dict[str, int] = {}
    best_error = float("inf")
    for scale in range(1, WEIGHT_MAX + 1):
        tried = {name: max(1, round(scale * part / heaviest)) for name, part in parts.items()}
        error = _largest_error(tried, percents, carriers)
        if error < best_error - 1e-9:
            best, best_error = tried, error
    return best


def _largest_error(
    weights: Mapping[str, int], percents: Mapping[str, int], carriers: Mapping[str, int]
) -> float:
    """Largest difference, in percent points, between wanted and given shares."""
    total = sum(weight * carriers[name] for name, weight in weights.items())
    return max(
        abs(100 * weights[name] * carriers[name] / total - percent)
        for name, percent in percents.items()
    )
