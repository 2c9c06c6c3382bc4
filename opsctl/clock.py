"""Time, so that tests can put another clock in its place."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of opsctl asks of time."""

    def now(self) -> float:
        """Wall time, unix seconds; for people and records only, as it may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back; for every wait and limit."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
