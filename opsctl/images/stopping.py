"""A build that is told to stop ends its own processes and removes its own files first."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from opsctl.errors import Interrupted


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Callable[[], None]]:
    """A function to be called often, which raises Interrupted once SIGINT or SIGTERM came."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    def interrupt() -> None:
        if arrived:
            stopped = Interrupted(arrived[0])
            stopped.next_step = "Run: opsctl build; finished steps are not done again"
            raise stopped

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
