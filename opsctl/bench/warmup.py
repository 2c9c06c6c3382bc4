"""When a warm-up is over. It never looks at the difference between the arms."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence

from opsctl.bench.figures import Record
from opsctl.bench.load import Round, Stop
from opsctl.config import settings

AGREE = 0.02
"""Two windows' medians count as settled when they differ by less than this share …"""

AGREE_ERRORS = 2.0
"""… or by less than this many standard errors of their difference: noise is no trend."""

BACKLOG_ROUNDS = 8
"""Rounds on their way above which the warm-up slows down: cold services need not be swamped."""

SLOW_SHARE = 0.2
"""Share of the rate that is left then."""


class WarmUp:
    """The course before the measurement: equal numbers of rounds of each batch size."""

    def __init__(
        self,
        bench: settings.Bench,
        record: Record,
        *,
        seed: int,
        interrupt: Callable[[], None],
    ) -> None:
        self.bench = bench
        self.record = record
        self.sizes = tuple(record.latencies)
        self.random = random.Random(seed)
        self.interrupt = interrupt
        self.started = time.monotonic()
        self.planned = 0
        self.checked_at = 0
        self.settled = False

    def next_size(self) -> int:
        self.planned += 1
        return self.sizes[self.planned % len(self.sizes)]

    def rate(self) -> float:
        backlog = self.planned - self.record.rounds()
        return self.bench.rate_per_s * (SLOW_SHARE if backlog > BACKLOG_ROUNDS else 1.0)

    def finished(self, done: Round) -> None:
        self.record.add(done.size, done.started - self.started, done.latencies, done.errors)

    def stop(self) -> Stop:
        self.interrupt()
        elapsed = time.monotonic() - self.started
        if elapsed >= self.bench.warmup_max_s:
            return "drain"
        if elapsed < self.bench.warmup_s or self.record.rounds() == self.checked_at:
            return ""
        self.checked_at = self.record.rounds()
        self.settled = all(self._settled(size) for size in self.sizes)
        return "drain" if self.settled else ""

    def _settled(self, size: int) -> bool:
        by_arm = self.record.latencies[size]
        if len(by_arm[0]) < self.bench.warmup_requests:
            return False
        return all(medians_agree(values) for values in by_arm)


def medians_agree(values: Sequence[float]) -> bool:
    """Whether the last third's median equals that of the third before it."""
    third = len(values) // 3
    if third == 0:
        return True
    before = [math.log(v) for v in values[-2 * third : -third] if math.isfinite(v)]
    after = [math.log(v) for v in values[-third:] if math.isfinite(v)]
    if not before or not after:
        return True
    # The standard error of a median is 1.25 sigma / sqrt(n) for normal values.
    noise = 1.25 * math.hypot(
        statistics.pstdev(before) / math.sqrt(len(before)),
        statistics.pstdev(after) / math.sqrt(len(after)),
    )
    change = abs(statistics.median(after) - statistics.median(before))
    return change <= max(AGREE, AGREE_ERRORS * noise)
