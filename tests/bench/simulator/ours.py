"""The project's own gate in the simulated world: the very judge that a deploy uses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opsctl.bench.evidence import P50_BLOCK
from opsctl.bench.gate import Judge
from opsctl.config.settings import Gate
from tests.bench.simulator.world import Case, World

CHUNK = 4 * P50_BLOCK
"""Rounds drawn at a time when several batch sizes share the stream."""

SIZE_COSTS = {1: 1.0, 4: 1.3, 16: 2.5, 32: 4.0}
"""Device time of a request by batch size, in units of the smallest one's."""


@dataclass(frozen=True)
class Result:
    """How one simulated gate ended. `seconds` is when."""

    outcome: str
    seconds: float


def run_single(case: Case, gate: Gate, seed: tuple[int, ...], rate: float = 100.0) -> Result:
    """One batch size at `rate` pairs a second."""
    world = World(case, seed)
    judge = Judge(gate, (1,))
    total = int(gate.budget_s * rate)
    for start in range(0, total, P50_BLOCK):
        at_s = np.arange(start, min(start + P50_BLOCK, total)) / rate
        verdict = judge.add(
            1,
            world.latencies(at_s, candidate=False).tolist(),
            world.latencies(at_s, candidate=True).tolist(),
        )
        if verdict is not None:
            return Result(verdict.outcome, (start + len(at_s)) / rate)
    verdict = judge.close()
    return Result(verdict.outcome if verdict else "inconclusive", gate.budget_s)


def run_sizes(
    case: Case, gate: Gate, seed: tuple[int, ...], slow_sizes: tuple[int, ...] = (1, 4, 16, 32)
) -> Result:
    """Four batch sizes that share 100 pairs a second; the effect hits `slow_sizes` only."""
    world, healthy = World(case, seed), World(replace(case, effect=1.0, tail=1.0), seed)
    judge = Judge(gate, tuple(SIZE_COSTS))
    rate = 100.0
    for start in range(0, int(gate.budget_s * rate), CHUNK):
        sizes = judge.open_sizes()
        shares = np.array([1.0 / SIZE_COSTS[size] for size in sizes])
        drawn = world.random.choice(sizes, size=CHUNK, p=shares / shares.sum())
        at_s = (start + np.arange(CHUNK)) / rate
        for size in sizes:
            times = at_s[drawn == size]
            source = world if size in slow_sizes else healthy
            verdict = judge.add(
                size,
                source.latencies(times, candidate=False).tolist(),
                source.latencies(times, candidate=True).tolist(),
            )
            if verdict is not None:
                return Result(verdict.outcome, (start + CHUNK) / rate)
    verdict = judge.close()
    return Result(verdict.outcome if verdict else "inconclusive", gate.budget_s)
