"""Throughput of both arms: short slices of full load, in pairs whose order a coin decides."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable

from opsctl.bench.evidence import Evidence
from opsctl.bench.gate import Judge
from opsctl.bench.saturate import Saturation
from opsctl.bench.session import Session
from opsctl.model import Json

METRIC = "throughput"

SLICE_S = 0.5
"""Length of a slice: hundreds of answers, short beside most disturbances."""

BUDGET_SHARE = 0.25
"""Most of the gate's budget that throughput may take."""


class Throughput:
    """Slice pairs of the largest batch size until the metric is decided, or its time is over."""

    def __init__(self, opened: Session, judge: Judge, evidence: Evidence) -> None:
        self.opened = opened
        self.judge = judge
        self.evidence = evidence
        self.size = opened.plan.bodies.sizes[-1]
        self.random = random.Random(opened.plan.seed + 2)
        self.rates: tuple[list[float], list[float]] = ([], [])

    def run(self, interrupt: Callable[[], None]) -> None:
        """Feed the evidence. What `interrupt` raises comes out at once."""
        deadline = time.monotonic() + BUDGET_SHARE * self.judge.gate.budget_s
        while time.monotonic() < deadline and not self.judge.settled(METRIC):
            rates = [0.0, 0.0]
            for arm in self.random.sample((0, 1), 2):
                rates[arm] = self._slice(arm, interrupt)
            seconds = [1.0 / rate if rate else math.inf for rate in rates]
            self.evidence.rates.add(seconds[:1], seconds[1:])
            for arm, rate in enumerate(rates):
                self.rates[arm].append(rate)

    def _slice(self, arm: int, interrupt: Callable[[], None]) -> float:
        generator = self.opened.generator
        payloads = [by_arm[arm] for by_arm in generator.payloads[self.size]]
        full = Saturation(generator.pools[arm], payloads, SLICE_S)
        timeout_s = self.opened.plan.bench.timeout_s
        return self.opened.loop.run_until_complete(full.run(interrupt, timeout_s))

    def report(self) -> Json:
        """Rates of the slices and their medians, instances a second."""
        named = zip(("baseline", "candidate"), self.rates, strict=True)
        return {
            "batch_size": self.size,
            "slice_s": SLICE_S,
            **{
                name: {
                    "instances_per_s": self.size * statistics.median(rates) if rates else 0.0,
                    "slices": [round(self.size * rate, 3) for rate in rates],
                }
                for name, rates in named
            },
        }
