"""How a long action waits: it can be stopped at any moment, and it tells that it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsctl.clock import Clock

SLICE_S = 0.05
"""Longest sleep between two looks at `interrupt`: a person should not notice it."""

HEARTBEAT_S = 5.0
"""Silence longer than this makes people think that nothing happens."""


@dataclass(frozen=True)
class Wait:
    """Clock, progress lines and the question whether to stop, handed down to every wait.

    `tell` takes one plain progress line. `interrupt` returns, or raises what ends the action
    (a signal, a person's request, a time limit).
    """

    clock: Clock
    tell: Callable[[str], None]
    interrupt: Callable[[], None]

    def pause(self, seconds: float) -> None:
        """Sleep, asking `interrupt` at least every `SLICE_S` seconds and once at the end."""
        end = self.clock.monotonic() + seconds
        while (left := end - self.clock.monotonic()) > 0:
            self.interrupt()
            self.clock.sleep(min(left, SLICE_S))
        self.interrupt()

    def heartbeat(self, line: Callable[[float], str]) -> Callable[[], None]:
        """A function for a loop to call: tells `line(seconds so far)` every `HEARTBEAT_S`."""
        begin = self.clock.monotonic()
        told = begin

        def beat() -> None:
            nonlocal told
            now = self.clock.monotonic()
            if now - told >= HEARTBEAT_S:
                told = now
                self.tell(line(now - begin))

        return beat
