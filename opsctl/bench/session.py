"""An event loop, pinned and of its own, with a generator on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvloop

from opsctl.bench import machine
from opsctl.bench.figures import Record
from opsctl.bench.load import Course, Generator, LoadPlan
from opsctl.bench.warmup import WarmUp
from opsctl.model import Json


class Session:
    """Runs courses one after the other over the same connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: LoadPlan) -> None:
        self.loop = loop
        self.plan = plan
        self.generator = Generator(loop, plan)

    def drive(self, course: Course) -> None:
        """Run a course to its end. Raises what the course raised."""
        self.loop.run_until_complete(self._drive(course))

    async def _drive(self, course: Course) -> None:
        await self.generator.warm()
        await self.generator.run(course)

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
    """CPU time of the client and of servers over a stretch of time."""

    def __init__(self, pids: dict[str, int]) -> None:
        self.pids = pids
        self.started = time.monotonic()
        self.before = self._read()

    def _read(self) -> dict[str, float | None]:
        readings: dict[str, float | None] = {"client": time.process_time()}
        return readings | {name: machine.cpu_seconds(pid) for name, pid in self.pids.items()}

    def seconds(self) -> dict[str, float | None]:
        """CPU seconds of each since the start; None where they can't be told."""
        now = self._read()
        result: dict[str, float | None] = {}
        for name, after in now.items():
            before = self.before[name]
            result[name] = None if after is None or before is None else after - before
        return result

    def percents(self) -> Json:
        """Percent of one core that each used."""
        wall = max(1e-9, time.monotonic() - self.started)
        return {
            name: None if used is None else 100.0 * used / wall
            for name, used in self.seconds().items()
        }
