"""How much an arm can answer: a closed loop that keeps every connection busy for a while.

Only throughput is read from it; latency comes from the open loop alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from opsctl.bench.connection import Carrier, Job
from opsctl.bench.load import TICK_S


class Saturation:
    """One stretch of full load on one arm."""

    def __init__(self, pool: Carrier, payloads: Sequence[bytes], seconds: float) -> None:
        self.pool = pool
        self.payloads = payloads
        self.seconds = seconds
        self.sent = 0
        self.answered = 0
        self.failed = 0
        self.on_way: set[Job] = set()
        self.deadline = 0.0
        self.finished = pool.loop.create_future()

    async def run(self, interrupt: Callable[[], None], timeout_s: float) -> float:
        """Requests answered a second; the last ones are waited for, but not counted.

        What `interrupt` raises comes out at once.
        """
        started = time.monotonic()
        self.deadline = started + self.seconds
        ticking = self.pool.loop.call_later(TICK_S, self._tick, interrupt, timeout_s)
        try:
            for _ in range(self.pool.limits.connections):
                self._send()
            await self.finished
        finally:
            ticking.cancel()
            self._abandon()
        return self.answered / self.seconds

    def _send(self) -> None:
        payload = self.payloads[self.sent % len(self.payloads)]
        self.sent += 1
        job = Job(0, time.monotonic(), payload, self._done)
        self.on_way.add(job)
        self.pool.submit(job)

    def _done(self, job: Job) -> None:
        self.on_way.discard(job)
        if time.monotonic() >= self.deadline:
            self._end_when_drained()
            return
        if job.error:
            self.failed += 1
            # A refused connection fails in microseconds: without a pause this would spin.
            self.pool.loop.call_later(TICK_S, self._send_again)
        else:
            self.answered += 1
            self.pool.loop.call_soon(self._send_again)

    def _send_again(self) -> None:
        if time.monotonic() < self.deadline and not self.finished.done():
            self._send()

    def _tick(self, interrupt: Callable[[], None], timeout_s: float) -> None:
        if self.finished.done():
            return
        try:
            interrupt()
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            self.finished.set_exception(error)
            return
        now = time.monotonic()
        for job in [one for one in self.on_way if now - one.scheduled > timeout_s]:
            job.failed("timeout")
        self.pool.loop.call_later(TICK_S, self._tick, interrupt, timeout_s)
        if now >= self.deadline:
            self._end_when_drained()

    def _end_when_drained(self) -> None:
        if not self.on_way and not self.finished.done():
            self.finished.set_result(None)

    def _abandon(self) -> None:
        """After an interrupt, what is on its way is not waited for; its connections close."""
        for job in list(self.on_way):
            job.done = True
            if job.connection is not None:
                job.connection.job = None
                job.connection.abort()
