"""Latencies of a baseline and a candidate in a world with its own disturbances.

All figures are in units of the baseline's median. A *scene* is what the machine does to both arms
alike at a time; the *bias* is what makes two copies of one release differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

STEP_S = 0.05
"""Resolution of a scene."""

SPIKE_SHARE = 0.002
SPIKE_SCALE = 1.0
"""One request in 500 takes longer by an exponential time with this mean (a collection, a flush)."""

TAIL_Z = 1.645
"""An effect on the tail alone reaches the slowest 5 % of the candidate's requests, and spikes."""

SCENES = ("iid", "noisy", "phase", "ramp")


@dataclass(frozen=True)
class Case:
    """What is simulated. `effect` slows every request of the candidate, `tail` the slowest 5 %."""

    scene: str = "iid"
    effect: float = 1.0
    tail: float = 1.0
    sigma: float = 0.2
    bias: float = 0.003
    horizon_s: float = 240.0


class World:
    """One run's world. `seed` fixes all of it."""

    def __init__(self, case: Case, seed: tuple[int, ...]) -> None:
        self.case = case
        self.random = np.random.default_rng(seed)
        steps = int(case.horizon_s / STEP_S) + 1
        self.times = np.arange(steps) * STEP_S
        self.log_factor, self.restless = self._scene()
        self.log_bias = float(self.random.normal(0.0, case.bias)) if case.bias else 0.0

    def _scene(self) -> tuple[Floats, Floats]:
        """Log factor of latency over time, and by how much its spread grows."""
        calm, quiet = np.zeros_like(self.times), np.ones_like(self.times)
        horizon = self.case.horizon_s
        if self.case.scene == "noisy":
            return self._noisy()
        if self.case.scene == "phase":
            second_half = self.times >= horizon / 2.0
            disturbed = second_half == bool(self.random.integers(2))
            return np.where(disturbed, np.log(1.15), 0.0), quiet
        if self.case.scene == "ramp":
            return np.log(1.06) * self.times / horizon, quiet
        return calm, quiet

    def _noisy(self) -> tuple[Floats, Floats]:
        """Slow drift of some percent, and a neighbour's bursts: 2 s of each 17 s on average."""
        drift = np.zeros_like(self.times)
        for _ in range(2):
            period, phase = self.random.uniform(60.0, 240.0), self.random.uniform(0.0, 2 * np.pi)
            drift += 0.03 * np.sin(2 * np.pi * self.times / period + phase)
        spread = np.ones_like(self.times)
        at = float(self.random.exponential(15.0))
        while at < self.case.horizon_s:
            length = float(self.random.exponential(2.0))
            inside = (self.times >= at) & (self.times < at + length)
            drift[inside] += np.log(self.random.uniform(1.1, 1.6))
            spread[inside] = 1.25
            at += length + float(self.random.exponential(15.0))
        return drift, spread

    def latencies(self, at_s: Floats, *, candidate: bool, sigma: float | None = None) -> Floats:
        """Latencies of requests of one arm at given times."""
        index = np.minimum((at_s / STEP_S).astype(np.int64), len(self.times) - 1)
        z = self.random.standard_normal(at_s.size)
        width = self.case.sigma if sigma is None else sigma
        values = np.exp(width * self.restless[index] * z)
        spikes = self.random.random(at_s.size) < SPIKE_SHARE
        values[spikes] += self.random.exponential(SPIKE_SCALE, int(spikes.sum()))
        if candidate:
            slow = (z > TAIL_Z) | spikes
            values = np.where(slow, values * self.case.tail, values)
            values *= self.case.effect * np.exp(self.log_bias)
        result: Floats = values * np.exp(self.log_factor[index])
        return result
