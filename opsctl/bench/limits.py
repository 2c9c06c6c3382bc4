"""Absolute limits (service level objectives) of one arm, judged soundly at every look. No I/O."""

from __future__ import annotations

import math

from opsctl.bench import stats
from opsctl.bench.report import Verdict
from opsctl.config import settings

P99_SHARE = 0.01
"""p99 is over its limit when more than this share of the requests is."""

MS = 1000.0


class Limits:
    """Counts of requests over the limits, and the verdict that they allow."""

    def __init__(self, gate: settings.Gate, sizes: tuple[int, ...]) -> None:
        self.gate = gate
        self.requests = dict.fromkeys(sizes, 0)
        self.slow = dict.fromkeys(sizes, 0)
        self.errors = 0

    def add(self, size: int, latency_s: float) -> None:
        self.requests[size] += 1
        self.errors += math.isinf(latency_s)
        limit = self.gate.max_p99_ms
        self.slow[size] += limit is not None and latency_s * MS > limit

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    def broken(self) -> Verdict | None:
        """A fail, when a limit is proved broken (the bound alpha is split over the limits)."""
        if self.total < self.gate.min_pairs:
            return None
        bound = math.log((1 + len(self.slow)) / self.gate.alpha)
        errors = stats.log_e_rate(self.errors, 0, self.total, self.gate.max_error_rate, above=True)
        if errors >= bound:
            return Verdict("fail", "slo", self._errors_sentence(), "errors")
        for size, slow in self.slow.items():
            if stats.log_e_rate(slow, 0, self.requests[size], P99_SHARE, above=True) >= bound:
                return Verdict("fail", "slo", self._slow_sentence(size), f"p99:{size}")
        return None

    def kept(self) -> Verdict:
        """The verdict at the planned end: pass if every measured figure keeps its limit."""
        if self.errors > self.gate.max_error_rate * self.total:
            return Verdict("inconclusive", "power", self._errors_sentence(), "errors")
        for size, slow in self.slow.items():
            if slow > P99_SHARE * self.requests[size]:
                return Verdict("inconclusive", "power", self._slow_sentence(size), f"p99:{size}")
        return Verdict("pass", "slo", f"absolute limits kept over {self.total} requests")

    def _errors_sentence(self) -> str:
        return (
            f"{self.errors} of {self.total} requests failed, "
            f"gate.max_error_rate allows {self.gate.max_error_rate:.2%}"
        )

    def _slow_sentence(self, size: int) -> str:
        return (
            f"{self.slow[size]} of {self.requests[size]} requests of batch size {size} took longer "
            f"than gate.max_p99_ms ({self.gate.max_p99_ms:g} ms), 1 % may"
        )
