"""Open-loop load: requests leave at times fixed beforehand, however slow the answers are.

Latency counts from the scheduled time, so a stalled server can't hide behind a waiting client
("coordinated omission", G. Tene, "How NOT to measure latency", 2015). Arms are interleaved in one
stream: a *round* asks every arm once, in random order, with the same body.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import struct
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from opsctl.bench.bodies import Bodies, render
from opsctl.bench.connection import Carrier, Job, Pool, PoolLimits
from opsctl.bench.grpc_arm import GrpcPool
from opsctl.config import settings
from opsctl.model import Endpoint

TICK_S = 0.02
"""How often the course is asked whether to go on, and time-outs are looked for."""

BURST_MAX = 64
"""Requests sent in a row when many are due: then answers are read, and the course is asked."""

START_DELAY_S = 0.02
"""Before the first request, so that it is not late already."""

TFD_NONBLOCK_CLOEXEC = 0o2004000
TFD_TIMER_ABSTIME = 1
NANOSECONDS = 1_000_000_000

Stop = Literal["", "drain", "now"]


@dataclass(frozen=True)
class LoadPlan:
    """What is sent: arms, settings, bodies, and the seed of arrivals, order and bodies."""

    arms: tuple[Endpoint, ...]
    bench: settings.Bench
    bodies: Bodies
    seed: int


class Round:
    """One request to each of `arms`: `latencies` in seconds, infinite for an error.

    `lag` is how late the later one of them left, in seconds.
    """

    __slots__ = ("arms", "errors", "lag", "latencies", "left", "size", "started")

    def __init__(self, size: int, arms: tuple[int, ...], started: float) -> None:
        self.size = size
        self.arms = arms
        self.started = started
        self.left = len(arms)
        self.lag = 0.0
        self.latencies = [float("inf")] * len(arms)
        self.errors = [""] * len(arms)


class Course(Protocol):
    """Who steers the load."""

    def next_size(self) -> int:
        """Batch size of the next round."""

    def rate(self) -> float:
        """Rounds a second from now on."""

    def finished(self, done: Round) -> None:
        """Takes rounds in the order in which they were scheduled, complete ones only."""

    def stop(self) -> Stop:
        """Asked every `TICK_S`: go on, wait for what is on its way, or end at once.

        What it raises ends the load at once, and comes out of `Generator.run`.
        """


class Turns(Protocol):
    """Which arms a round asks, when they can't all be asked at any time."""

    def place(self, at: float) -> tuple[float, tuple[int, ...]]:
        """When a round may leave that is due at `at` (then or later), and the arms that it asks.

        Called once a round, with rising times, before the course names the batch size.
        """


class Timer:
    """A kernel timer with nanoseconds (timerfd), as event loops round to milliseconds."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.timerfd_create(time.CLOCK_MONOTONIC, TFD_NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")

    def set(self, when: float) -> None:
        """Fire once at `when` (`time.monotonic` seconds); the past fires at once."""
        nanoseconds = max(1, int(when * NANOSECONDS))
        spec = struct.pack("qqqq", 0, 0, *divmod(nanoseconds, NANOSECONDS))
        if self.libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, spec, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def clear(self) -> None:
        """Take note of the firing, so that the event loop does not call again."""
        with suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)


class Generator:
    """Runs one plan; pools stay open from one `run` to the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: LoadPlan) -> None:
        self.loop = loop
        self.plan = plan
        self.random = random.Random(plan.seed)
        limits = PoolLimits(plan.bench.connections, plan.bench.timeout_s)
        carrier = GrpcPool if plan.bench.protocol == "grpc" else Pool
        self.pools: list[Carrier] = [carrier(loop, endpoint, limits) for endpoint in plan.arms]
        self.payloads = {
            size: [
                [render(plan.bench, endpoint, body) for endpoint in plan.arms] for body in bodies
            ]
            for size, bodies in plan.bodies.by_size.items()
        }
        self.lags = array("d")
        """Seconds between schedule and sending, of each request of the last run."""

    async def warm(self) -> None:
        """Open every connection."""
        await asyncio.gather(*(pool.warm() for pool in self.pools))

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()

    async def run(self, course: Course, turns: Turns | None = None) -> None:
        """Send until the course stops; the time limit of requests bounds a drain."""
        self.lags = array("d")
        sender = Sender(self, course, turns)
        with _quiet_collector():
            try:
                await sender.run()
            finally:
                sender.close()


class Sender:
    """One run of a generator."""

    def __init__(self, owner: Generator, course: Course, turns: Turns | None) -> None:
        self.owner = owner
        self.course = course
        self.turns = turns
        self.timer = Timer()
        self.ended = owner.loop.create_future()
        self.rounds: deque[Round] = deque()
        self.jobs: deque[Job] = deque()
        self.due: deque[tuple[float, int, Sequence[bytes], Round]] = deque()
        self.next_at = time.monotonic() + START_DELAY_S
        self.stopping = False
        self.ticking: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        self.owner.loop.add_reader(self.timer.fd, self._guarded, self._send_due)
        self._plan_round()
        self.timer.set(self.due[0][0])
        self._guarded(self._tick)
        await self.ended

    def close(self) -> None:
        self.owner.loop.remove_reader(self.timer.fd)
        if self.ticking is not None:
            self.ticking.cancel()
        self.timer.close()
        for job in self.jobs:
            job.done = True
            if job.connection is not None:
                job.connection.abort()

    def _guarded(self, step: Callable[..., None], *arguments: object) -> None:
        """Hand any exception to the caller of `run` instead of the event loop's logger."""
        try:
            step(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            self.stopping = True
            if not self.ended.done():
                self.ended.set_exception(error)

    def _gap(self, rate: float) -> float:
        if self.owner.plan.bench.arrivals == "poisson":
            return self.owner.random.expovariate(rate)
        return 1.0 / rate

    def _plan_round(self) -> None:
        """Fix the next round: batch size, body, order of the arms, and when each one leaves."""
        chance = self.owner.random
        arms = tuple(range(len(self.owner.pools)))
        if self.turns is not None:
            self.next_at, arms = self.turns.place(self.next_at)
        size = self.course.next_size()
        payloads = chance.choice(self.owner.payloads[size])
        planned = Round(size, arms, self.next_at)
        order = chance.sample(arms, len(arms))
        rate = self.course.rate() * len(arms)
        for arm in order:
            self.due.append((self.next_at, arm, payloads, planned))
            self.next_at += self._gap(rate)

    def _send_due(self) -> None:
        self.timer.clear()
        for _ in range(BURST_MAX):
            if self.stopping:
                return
            now = time.monotonic()
            if self.due[0][0] > now:
                break
            self._send(now, *self.due.popleft())
            if not self.due:
                self._plan_round()
        self.timer.set(self.due[0][0])

    def _send(
        self, now: float, when: float, arm: int, payloads: Sequence[bytes], of: Round
    ) -> None:
        if of.left == len(of.latencies) and not (self.rounds and self.rounds[-1] is of):
            self.rounds.append(of)
        self.owner.lags.append(now - when)
        of.lag = max(of.lag, now - when)
        job = Job(arm, when, payloads[arm], lambda done: self._guarded(self._done, done, of))
        self.jobs.append(job)
        self.owner.pools[arm].submit(job)

    def _done(self, job: Job, of: Round) -> None:
        place = of.arms.index(job.arm)
        of.latencies[place] = job.latency
        of.errors[place] = job.error
        of.left -= 1
        while self.rounds and self.rounds[0].left == 0:
            self.course.finished(self.rounds.popleft())

    def _tick(self) -> None:
        self.ticking = self.owner.loop.call_later(TICK_S, self._guarded, self._tick)
        self._time_out(time.monotonic() - self.owner.plan.bench.timeout_s)
        stop = self.course.stop()
        self.stopping = self.stopping or stop != ""
        if self.stopping and (stop == "now" or not self.jobs) and not self.ended.done():
            self.ended.set_result(None)

    def _time_out(self, oldest: float) -> None:
        """Give up on requests scheduled before `oldest`; forget finished ones."""
        while self.jobs and (self.jobs[0].done or self.jobs[0].scheduled < oldest):
            job = self.jobs.popleft()
            if job.done:
                continue
            connection, job.connection = job.connection, None
            job.failed("timeout")
            if connection is not None:
                connection.job = None
                connection.abort()


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """No garbage collection while requests are timed: a full one stalls for tens of ms."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
