"""Two releases whose full load is measured in turns: half a second each, in pairs."""

from __future__ import annotations

import math

import numpy as np

from opsctl.bench.gate import Judge
from opsctl.bench.throughput import BUDGET_SHARE, METRIC, SLICE_S
from opsctl.config.settings import Gate
from tests.bench.simulator.ours import Result
from tests.bench.simulator.world import Case, World

SERVICE_S = 0.0015
"""Time of the device for one request, as in the slices."""

ROOM = 2
"""Requests that are drawn for a slice, as a multiple of what it takes in a calm world."""

OUTCOMES = {"good": "pass", "worse": "fail", "": "inconclusive"}


def run_throughput(case: Case, gate: Gate, seed: tuple[int, ...]) -> Result:
    """The throughput part of one gate, which has its share of the budget."""
    world = World(case, seed)
    judge = Judge(gate, (1,))
    at = 0.0
    while at < BUDGET_SHARE * gate.budget_s and not judge.settled(METRIC):
        seconds = [0.0, 0.0]
        for arm in world.random.permutation(2):
            seconds[arm] = _slice(world, at, candidate=bool(arm))
            at += SLICE_S
        judge.evidence.rates.add(seconds[:1], seconds[1:])
    return Result(OUTCOMES[judge.settled(METRIC)], at)


def _slice(world: World, at: float, *, candidate: bool) -> float:
    """Seconds a request of a closed loop: requests follow each other without a pause."""
    count = math.ceil(ROOM * SLICE_S / SERVICE_S)
    times = at + np.linspace(0.0, SLICE_S, count)
    finished = np.cumsum(SERVICE_S * world.latencies(times, candidate=candidate))
    answered = int(np.searchsorted(finished, SLICE_S))
    return SLICE_S / answered if answered else math.inf
