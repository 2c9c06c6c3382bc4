"""Being in charge: the heartbeat that proves it, and the one question every wait asks.

`interrupt()` is called often by everything that waits; it raises when this command must stop
waiting: a signal, a time limit, a request in the inbox, or another opsctl that took over.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from opsctl.clock import Clock
from opsctl.errors import (
    CandidateFailed,
    Interrupted,
    OpsctlError,
    RequestArrived,
    Superseded,
    TimedOut,
)
from opsctl.inbox import Inbox, Request
from opsctl.storage import HeldLock
from opsctl.targets.target import Target

BEAT_S = 1.0
"""Time between two proofs of life; the guard's lease is four of them."""

LOOK_S = 0.1
"""How often the inbox is looked at."""


class Attendance:
    """The holder's presence at a rollout."""

    def __init__(self, lock: HeldLock, target: Target, inbox: Inbox, clock: Clock) -> None:
        self.lock = lock
        self.target = target
        self.inbox = inbox
        self.clock = clock
        self.seen: frozenset[str] = frozenset()
        """Requests that stand in the journal already."""
        self.epoch = 0
        """Set once the target has accepted a state of ours; from then on the lease is renewed."""
        self._signal = 0
        self._lost: OpsctlError | None = None
        self._deadline: float | None = None
        self._step_deadline: float | None = None
        self._overrun: type[OpsctlError] = CandidateFailed
        self._checked = 0.0
        self._looked = 0.0

    def limit(self, timeout_s: float | None) -> None:
        """Limit the whole command."""
        self._deadline = None if timeout_s is None else self.clock.monotonic() + timeout_s

    def limit_step(
        self, timeout_s: float | None, overrun: type[OpsctlError] = CandidateFailed
    ) -> None:
        """Limit the step that begins now; `overrun` is raised when it takes longer."""
        self._overrun = overrun
        self._step_deadline = None if timeout_s is None else self.clock.monotonic() + timeout_s

    def interrupt(self) -> None:
        """Raise when this command must stop waiting; return at once otherwise."""
        self.interrupt_unasked()
        if any(item.id not in self.seen for item in self._arrived()):
            raise RequestArrived("a request waits in the inbox")

    def interrupt_unasked(self) -> None:
        """As `interrupt`, but a request of another terminal is no reason."""
        if self._signal:
            raise Interrupted(self._signal)
        if self._lost:
            raise self._lost
        now = self.clock.monotonic()
        if self._deadline is not None and now > self._deadline:
            raise TimedOut("the time limit (--timeout) passed", next_step="Run: opsctl resume")
        if self._step_deadline is not None and now > self._step_deadline:
            raise self._overrun(
                "the step ran over its time limit",
                why="strategy.step_timeout_s (opsctl.yaml)",
                next_step="Look at opsctl logs; allow more time there, then deploy again",
            )
        if now - self._checked >= LOOK_S:
            self._checked = now
            self.lock.check()

    def _arrived(self) -> Sequence[Request]:
        """The inbox, looked at now and then."""
        now = self.clock.monotonic()
        if now - self._looked < LOOK_S:
            return ()
        self._looked = now
        return self.inbox.items()

    @contextlib.contextmanager
    def present(self) -> Iterator[None]:
        """Beat, and catch SIGINT and SIGTERM, for the length of a block."""
        stop = threading.Event()
        thread = threading.Thread(target=self._beat, args=(stop,), daemon=True)
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = number

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_S):
            self.lock.beat()
            if not self.epoch:
                continue
            try:
                self.target.renew(self.epoch)
            except Superseded as error:
                self._lost = error
            except OpsctlError:
                continue  # an unreachable target is noticed by the step that needs it
