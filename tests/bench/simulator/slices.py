"""Two releases on one serial device that take turns: 250 ms slices in pairs."""

from __future__ import annotations

import numpy as np

from opsctl.bench.gate import Judge
from opsctl.bench.slices import GUARD_S, SLICE_S, SliceEvidence
from opsctl.config.settings import Gate
from tests.bench.simulator.ours import Result
from tests.bench.simulator.world import Case, Floats, World

SERVICE_S = 0.0015
"""Time of the device for one request: a small model. More of them a slice decide faster."""

BUSY = 0.3
"""Share of its time that the device works."""


def waited(arrivals: Floats, services: Floats) -> Floats:
    """Latencies behind one server, first come first served (Lindley's recursion)."""
    finished = np.cumsum(services)
    before = np.concatenate([[0.0], finished[:-1]])
    result: Floats = np.maximum.accumulate(arrivals - before) + finished - arrivals
    return result


def run_slices(case: Case, gate: Gate, seed: tuple[int, ...]) -> Result:
    """One gate in slices. Latencies of a slice are those of a queue that starts it empty."""
    world = World(case, seed)
    judge = Judge(gate, (1,), SliceEvidence(gate, (1,)))
    at = 0.0
    while at < gate.budget_s:
        pair: dict[bool, Floats] = {}
        for candidate in (False, True) if world.random.integers(2) else (True, False):
            pair[candidate] = _slice(world, at, candidate=candidate)
            at += SLICE_S
        verdict = judge.add(1, pair[False].tolist(), pair[True].tolist())
        if verdict is not None:
            return Result(verdict.outcome, at)
    verdict = judge.close()
    return Result(verdict.outcome if verdict else "inconclusive", gate.budget_s)


def _slice(world: World, at: float, *, candidate: bool) -> Floats:
    count = int(world.random.poisson(BUSY / SERVICE_S * (SLICE_S - GUARD_S)))
    arrivals = np.sort(world.random.uniform(GUARD_S, SLICE_S, count))
    services = SERVICE_S * world.latencies(at + arrivals, candidate=candidate)
    return waited(arrivals, services)
