"""The course of a gate: load feeds the judge, the judge steers the load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from opsctl.bench.evidence import Evidence, PairEvidence
from opsctl.bench.figures import Record, arms_report
from opsctl.bench.gate import Judge
from opsctl.bench.limits import Limits
from opsctl.bench.load import Round, Stop, Turns
from opsctl.bench.raw import RawLog, rounds_in
from opsctl.bench.report import GateRequest, Verdict
from opsctl.bench.trace import ratio_traces
from opsctl.model import Json

Tell = Callable[[str], None]
Interrupt = Callable[[], None]

PROGRESS_S = 5.0
"""How often progress is told."""


@dataclass(frozen=True)
class Steering:
    """How fast rounds leave, and what one of each batch size costs the device (any unit).

    A round that left later than `lag_max_s` is set aside: the client's fault is in its latency.
    Lateness does not depend on which arm is which, so this is as fair as the coin.
    """

    rounds_per_s: float
    costs: dict[int, float]
    lag_max_s: float


class GateCourse:
    """Feeds the judge while the load runs, and chooses batch sizes."""

    def __init__(
        self, request: GateRequest, steering: Steering, *, tell: Tell, interrupt: Interrupt
    ) -> None:
        self.request = request
        self.steering = steering
        self.tell = tell
        self.interrupt = interrupt
        sizes = tuple(steering.costs)
        self.single = request.baseline is None
        self.record = Record(sizes, 1 if self.single else 2)
        self.evidence = self._evidence(sizes)
        self.judge = Judge(request.gate, sizes, self.evidence)
        self.limits = Limits(request.gate, sizes)
        self.random = random.Random(request.seed + 1)
        self.turns: Turns | None = None
        self.verdict: Verdict | None = None
        self.late = 0
        self.spent_s = 0.0
        self.raw = RawLog(request.progress_path, request.seed)
        if self.raw.earlier is not None:
            tell(
                f"{rounds_in(self.raw.earlier) or 0} rounds of an earlier attempt decide nothing: "
                f"measured again; they are kept in {self.raw.earlier}"
            )
        self.blocks: list[tuple[float, int]] = []
        """When each p50 block was full (seconds since the start), and its batch size."""
        self.started = self.told = time.monotonic()

    def _evidence(self, sizes: tuple[int, ...]) -> Evidence:
        return PairEvidence(self.request.gate, sizes)

    def metrics(self) -> Json:
        """Ratios and e-values of the metrics that decide."""
        assert isinstance(self.evidence, PairEvidence)
        return ratio_traces(self.judge, self.evidence, self.blocks)

    def begin(self, spent_s: float) -> None:
        """Start the clock, with that much of the budget used up."""
        self.spent_s = spent_s
        self.started = self.told = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def next_size(self) -> int:
        """Open batch sizes get equal time of the device: the chance of each is 1 / its cost.

        Without a baseline the size with the fewest requests is next.
        """
        if self.single:
            counts = self.limits.requests  # each size needs as many, so the poorest is next
            return min(counts, key=lambda size: counts[size])
        costs, sizes = self.steering.costs, self.judge.open_sizes()
        return self.random.choices(sizes, [1.0 / costs[size] for size in sizes])[0]

    def rate(self) -> float:
        return self.steering.rounds_per_s

    def finished(self, done: Round) -> None:
        self.raw.add(done, done.started - self.started)
        if self.verdict is not None:
            return
        if done.lag > self.steering.lag_max_s and not any(done.errors):
            self.late += 1
            return
        self.record.add(done.size, done.started - self.started, done.latencies, done.errors)
        self.limits.add(done.size, done.latencies[-1])
        if not self.single:
            self._judge(done)

    def _judge(self, done: Round) -> None:
        first, second = done.latencies
        self._take(done.size, [first], [second])

    def _take(self, size: int, baseline: list[float], candidate: list[float]) -> None:
        if not self.evidence.add(size, baseline, candidate):
            return
        self.verdict = self.judge.look()
        self.blocks.append((self.elapsed, size))
        if self.verdict is None or self.verdict.outcome != "fail":
            self.verdict = self.limits.broken() or self.verdict

    def stop(self) -> Stop:
        self.interrupt()
        self.raw.flush()
        if time.monotonic() - self.told >= PROGRESS_S:
            self._progress()
        if self.single and self.verdict is None:
            self.verdict = self.limits.broken()
        if self.verdict is not None:
            return "now"
        over = self.spent_s + self.elapsed >= self.request.gate.budget_s
        return "drain" if over or self._enough() else ""

    def _enough(self) -> bool:
        """Whether a gate without a baseline has all the requests it plans to judge."""
        counts = self.limits.requests.values()
        return self.single and all(count >= self.request.gate.min_pairs for count in counts)

    def close(self) -> None:
        """The last look when the time is over."""
        if self.verdict is None:
            self.verdict = self.limits.broken()
        if self.verdict is None:
            self.verdict = self.limits.kept() if self.single else self.judge.close()

    def _progress(self) -> None:
        self.told = time.monotonic()
        proved = f", {len(self.judge.cleared)} of {len(self.judge.names())} metrics proved good"
        rounds = self.record.rounds()
        self.tell(f"benchmark {self.elapsed:.0f} s: {rounds} rounds{'' if self.single else proved}")

    def batches(self, seconds: float) -> Json:
        """Figures of both arms by batch size over that time, as in the report."""
        return arms_report(self.record, self.request.bench.timeout_s, seconds)
