"""Integer weights for HAProxy that give each release exactly its percentage; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

WEIGHT_MAX = 256
"""HAProxy's largest server weight (configuration manual, `weight`)."""


def server_weights(
    percents: Mapping[str, int], replicas: Mapping[str, int]
) -> dict[str, list[int]]:
    """Weights of the replicas of each release, so that releases get `percents` of the traffic.

    `percents` sum to 100 over the releases with traffic; each of those has ≥ 1 replica. Equal
    weights within a release where that is possible, else weights that differ by 1; a share that
    is too small for a weight of 1 on each replica uses fewer of them.
    """
    sharing = {name: percent for name, percent in percents.items() if percent > 0}
    if not sharing:
        return {}
    equal = _equal(sharing, replicas)
    if equal:
        return {name: [weight] * replicas[name] for name, weight in equal.items()}
    # The finest units that fit: a percent is `scale` units, so shares stay exact.
    scale = min(WEIGHT_MAX * replicas[name] // percent for name, percent in sharing.items())
    return {name: _spread(percent * scale, replicas[name]) for name, percent in sharing.items()}


def _equal(percents: Mapping[str, int], replicas: Mapping[str, int]) -> dict[str, int]:
    """The smallest weights that are exact and equal within each release; empty if too large."""
    scale = math.lcm(*(replicas[n] // math.gcd(p, replicas[n]) for n, p in percents.items()))
    weights = {name: percent * scale // replicas[name] for name, percent in percents.items()}
    common = math.gcd(*weights.values())
    reduced = {name: weight // common for name, weight in weights.items()}
    return reduced if max(reduced.values()) <= WEIGHT_MAX else {}


def _spread(units: int, count: int) -> list[int]:
    """`units` over `count` replicas, as evenly as whole numbers can."""
    each, more = divmod(units, count)
    return [each + 1] * more + [each] * (count - more)
