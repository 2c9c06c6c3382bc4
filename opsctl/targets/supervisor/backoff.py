"""When a crashed replica is started again; pure."""

from __future__ import annotations

from collections import deque

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0
HEALTHY_RESET_S = 60.0
"""Health for so long forgives the crashes before it."""

LOOP_WINDOW_S = 60.0
"""Crashes within this time count as one loop (health.max_restarts is per minute)."""


class CrashHistory:
    """Crashes of one replica, and the pause that each of them costs."""

    def __init__(self) -> None:
        self._delay_s = FIRST_DELAY_S
        self._crashes: deque[float] = deque()

    def record(self, now: float, healthy_s: float, max_restarts: int) -> float:
        """Note a crash at `now` (monotonic) after `healthy_s` of health; the pause in seconds."""
        if healthy_s >= HEALTHY_RESET_S:
            self._delay_s = FIRST_DELAY_S
            self._crashes.clear()
        self._crashes.append(now)
        delay = self._delay_s
        self._delay_s = min(self._delay_s * 2, LONGEST_DELAY_S)
        return LONGEST_DELAY_S if self.looping(now, max_restarts) else delay

    def looping(self, now: float, max_restarts: int) -> bool:
        """Whether the crashes of the last minute make a loop."""
        while self._crashes and now - self._crashes[0] > LOOP_WINDOW_S:
            self._crashes.popleft()
        return len(self._crashes) >= max_restarts
