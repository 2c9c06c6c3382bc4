"""An event loop, pinned and of its own, with a generator on it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvloop

from opsctl.bench import machine
from opsctl.bench.figures import Record
from opsctl.bench.load import Course, Generator, LoadPlan, Turns
from opsctl.bench.warmup import WarmUp
from opsctl.config import settings
from opsctl.model import Json

LAG_FLOOR_S = 0.001
"""A request that left less than this late always counts: an idle machine shows such lags, and
their median, which is what shifts a p50, is then ten times smaller."""

PERCENT = 100.0


def lag_max_s(gate: settings.Gate, median_s: float) -> float:
    """Lateness from which on the client's own fault is too much of a latency of that median."""
    return max(gate.max_lag_percent / PERCENT * median_s, LAG_FLOOR_S)


class Session:
    """Runs courses one after the other over the same connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: LoadPlan) -> None:
        self.loop = loop
        self.plan = plan
        self.generator = Generator(loop, plan)

    def drive(self, course: Course, turns: Turns | None = None) -> None:
        """Run a course to its end. Raises what the course raised."""
        self.loop.run_until_complete(self._drive(course, turns))

    async def _drive(self, course: Course, turns: Turns | None) -> None:
        await self.generator.warm()
        await self.generator.run(course, turns)

    def warm_up(self, interrupt: Callable[[], None]) -> tuple[Record, Json]:
        """The warm-up by rule: its record, and what the report says of it."""
        record = Record(self.plan.bodies.sizes, len(self.plan.arms))
        course = WarmUp(self.plan.bench, record, seed=self.plan.seed, interrupt=interrupt)
        self.drive(course)
        return record, {
            "seconds": time.monotonic() - course.started,
            "rounds": record.rounds(),
            "settled": course.settled,
        }


@contextmanager
def session(plan: LoadPlan, client_cpus: tuple[int, ...]) -> Iterator[Session]:
    """A session whose loop and connections are gone afterwards, whatever happened."""
    loop = uvloop.new_event_loop()
    try:
        with machine.pinned(client_cpus):
            opened = Session(loop, plan)
            try:
                yield opened
            finally:
                loop.run_until_complete(opened.generator.close())
    finally:
        loop.close()


class CpuMeter:
    """CPU use of this process (the client) and of servers over a stretch of time."""

    def __init__(self, pids: dict[str, int]) -> None:
        self.pids = {"client": os.getpid(), **pids}
        self.started = time.monotonic()
        self.before = {name: machine.cpu_use(pid) for name, pid in self.pids.items()}

    def used(self) -> dict[str, machine.CpuUse]:
        """What each used since the start; those that can't be told (gone, remote) are left out."""
        result = {}
        for name, pid in self.pids.items():
            before, now = self.before[name], machine.cpu_use(pid)
            if before is not None and now is not None and now.ran_s >= before.ran_s:
                result[name] = now.since(before)
        return result

    def report(self) -> Json:
        """Percent of one core that each ran, and that each waited for one."""
        wall = max(1e-9, time.monotonic() - self.started)
        return {
            name: {"ran": 100.0 * use.ran_s / wall, "waited": 100.0 * use.waited_s / wall}
            for name, use in self.used().items()
        }
