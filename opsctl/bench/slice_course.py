"""The course of a gate whose arms share one serial device: they take turns."""

from __future__ import annotations

import random
from typing import Any

from opsctl.bench.course import GateCourse
from opsctl.bench.evidence import Evidence
from opsctl.bench.load import Round
from opsctl.bench.slices import GUARD_S, SLICE_S, SliceEvidence
from opsctl.bench.trace import slice_traces
from opsctl.model import Json


class SliceTurns:
    """Slices in pairs from the first request on; a coin decides which of two slices is whose."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.started: float | None = None
        self.pair = -1
        self.order = (0, 1)

    def place(self, at: float) -> tuple[float, tuple[int, ...]]:
        if self.started is None:
            self.started = at - GUARD_S
        index, phase = divmod(at - self.started, SLICE_S)
        if phase < GUARD_S:
            at = self.started + index * SLICE_S + GUARD_S
        if self.pair_of(at) != self.pair:
            self.pair = self.pair_of(at)
            first = self.random.randrange(2)
            self.order = (first, 1 - first)
        return at, (self.order[int(index) % 2],)

    def pair_of(self, at: float) -> int:
        """Number of the slice pair that a time lies in."""
        # Half a guard aside, so that rounding can't put a slice's first request into the last one.
        return int((at - (self.started or 0.0) - GUARD_S / 2) / (2 * SLICE_S))


class SliceCourse(GateCourse):
    """Collects a slice pair's latencies, and hands them over when the next pair has begun."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.slice_turns = SliceTurns(self.request.seed + 3)
        self.turns = self.slice_turns
        self.size_of_pair: tuple[int, int] = (-1, 0)
        self.open_pair = -1
        self.open_size = 0
        self.waiting: tuple[list[float], list[float]] = ([], [])

    def _evidence(self, sizes: tuple[int, ...]) -> Evidence:
        return SliceEvidence(self.request.gate, sizes)

    def metrics(self) -> Json:
        """As of pairs."""
        assert isinstance(self.evidence, SliceEvidence)
        return slice_traces(self.judge, self.evidence, self.blocks)

    def next_size(self) -> int:
        """One batch size a slice pair: open sizes get equal time, so each is as likely."""
        pair = self.slice_turns.pair
        if self.size_of_pair[0] != pair:
            self.size_of_pair = (pair, self.random.choice(self.judge.open_sizes()))
        return self.size_of_pair[1]

    def rate(self) -> float:
        """Both arms' requests, as each round asks one arm."""
        return 2.0 * self.steering.rounds_per_s

    def finished(self, done: Round) -> None:
        self.raw.add(done, done.started - self.started)
        if self.verdict is not None:
            return
        if done.lag > self.steering.lag_max_s and not any(done.errors):
            self.late += 1
            return
        pair = self.slice_turns.pair_of(done.started)
        if pair != self.open_pair:
            self._hand_over()
            self.open_pair, self.open_size = pair, done.size
        arm = done.arms[0]
        self.record.add_one(done.size, arm, done.latencies[0], done.errors[0])
        self.waiting[arm].append(done.latencies[0])
        if arm == 1:
            self.limits.add(done.size, done.latencies[0])

    def _hand_over(self) -> None:
        baseline, candidate = self.waiting
        self.waiting = ([], [])
        if baseline and candidate:
            self._take(self.open_size, baseline, candidate)
