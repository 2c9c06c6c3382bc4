"""Dynamic batches: what waits when a worker is free goes together, up to a number of instances.

Greedy: with nothing in the way a request starts at once, alone; under load the queue grows while
the workers are busy, and so do the batches. Nobody waits for company unless `batch_timeout_s` is
set. Several batches run at once, one on each worker thread; the event loop never blocks.

Requests can share a batch when they have the same `lane`: signature, and shapes beyond the first
axis. Everything here but `run` itself happens on the event loop, so nothing needs a lock.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_serving.errors import Internal, InvalidRequest, RequestError, Unavailable

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Run = Callable[[Hashable, Arrays], dict[str, Array]]
Observe = Callable[[int, float], None]


_STOPPED = "the service has stopped"


@dataclass(frozen=True)
class BatchLimits:
    """`max_batch` and `max_queue` count instances; `workers` is how many batches run at once."""

    max_batch: int = 32
    max_queue: int = 1024
    batch_timeout_s: float = 0.0
    workers: int = 4


@dataclass(eq=False)
class _Work:
    inputs: Arrays
    size: int
    future: asyncio.Future[dict[str, Array]]
    since_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class _Batch:
    works: Sequence[_Work]
    started_s: float


def _ignore(_size: int, _seconds: float) -> None:
    """Observes nothing."""


class Batcher:
    """Collects requests into batches and runs them on threads.

    `run` is called on a worker thread with a lane and the joined inputs. `observe` is called on
    the event loop after each batch with its instances and its seconds.
    """

    def __init__(self, run: Run, limits: BatchLimits, observe: Observe = _ignore) -> None:
        self._run = run
        self._limits = limits
        self._observe = observe
        self._lanes: dict[Hashable, deque[_Work]] = {}
        self._running: dict[asyncio.Future[Any], _Batch] = {}
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="batch")
        self._pump_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.queued = 0  # instances that wait

    async def submit(self, lane: Hashable, inputs: Arrays, size: int) -> dict[str, Array]:
        """The outputs for `size` instances; more than a batch holds are split and joined again.

        Raises `Unavailable` when the queue is full, and what `run` raises.
        """
        limits = self._limits
        if self._is_closed:
            raise Unavailable(_STOPPED)
        # A request larger than the whole queue is let in when it is alone, or it could never be.
        if self.queued and self.queued + size > limits.max_queue:
            raise Unavailable(
                f"the queue is full: {self.queued} instances wait and {limits.max_queue} may",
                retry_after_s=self._estimate_wait_s(),
            )
        if size <= limits.max_batch:
            return await self._enqueue(lane, inputs, size)
        starts = range(0, size, limits.max_batch)
        parts = await asyncio.gather(
            *(
                self._enqueue(lane, _slice(inputs, start, start + limits.max_batch), width)
                for start, width in ((s, min(limits.max_batch, size - s)) for s in starts)
            )
        )
        return _join(parts)

    @property
    def running(self) -> int:
        """Batches under way."""
        return len(self._running)

    def oldest_s(self) -> float:
        """Seconds since the oldest waiting request came or the oldest running batch started."""
        waiting = [works[0].since_s for works in self._lanes.values() if works]
        started = [batch.started_s for batch in self._running.values()]
        oldest = min([*waiting, *started], default=math.inf)
        return max(0.0, time.monotonic() - oldest) if oldest < math.inf else 0.0

    def close(self) -> None:
        """Refuses what waits or runs, and lets the worker threads end; does not wait for them."""
        self._is_closed = True
        running = (batch.works for batch in self._running.values())
        for work in itertools.chain(*self._lanes.values(), *running):
            if not work.future.done():
                work.future.set_exception(Unavailable(_STOPPED))
        self._lanes.clear()
        self.queued = 0
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _estimate_wait_s(self) -> int:
        return max(1, math.ceil(self.oldest_s()))

    def _enqueue(
        self, lane: Hashable, inputs: Arrays, size: int
    ) -> asyncio.Future[dict[str, Array]]:
        loop = asyncio.get_running_loop()
        work = _Work(inputs, size, loop.create_future())
        self._lanes.setdefault(lane, deque()).append(work)
        self.queued += size
        if not self._pump_is_due:
            # Not at once: what other connections have sent in the same turn of the loop joins.
            self._pump_is_due = True
            loop.call_soon(self._pump)
        return work.future

    def _pump(self) -> None:
        self._pump_is_due = False
        while len(self._running) < self._limits.workers:
            lane = self._next_lane()
            if lane is None or not self._is_ripe(self._lanes[lane]):
                return
            works = self._take(lane)
            if works:
                self._start(lane, works)

    def _next_lane(self) -> Hashable | None:
        """The lane whose first request has waited longest; empty lanes are forgotten."""
        for lane in [lane for lane, works in self._lanes.items() if not works]:
            del self._lanes[lane]
        if not self._lanes:
            return None
        return min(self._lanes, key=lambda lane: self._lanes[lane][0].since_s)

    def _is_ripe(self, works: deque[_Work]) -> bool:
        limits = self._limits
        if limits.batch_timeout_s <= 0:
            return True
        left_s = works[0].since_s + limits.batch_timeout_s - time.monotonic()
        if left_s <= 0 or sum(work.size for work in works) >= limits.max_batch:
            return True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(left_s, self._pump)
        return False

    def _take(self, lane: Hashable) -> list[_Work]:
        """Removes the next batch from a lane; requests that gave up meanwhile are dropped."""
        works, taken, room = self._lanes[lane], list[_Work](), self._limits.max_batch
        while works and (works[0].size <= room or not taken):
            work = works.popleft()
            self.queued -= work.size
            if not work.future.done():
                taken.append(work)
                room -= work.size
        return taken

    def _start(self, lane: Hashable, works: list[_Work]) -> None:
        loop = asyncio.get_running_loop()
        run = loop.run_in_executor(self._pool, self._run_batch, lane, works)
        self._running[run] = _Batch(works, time.monotonic())
        run.add_done_callback(self._finish)

    def _finish(self, run: asyncio.Future[list[dict[str, Array] | Exception]]) -> None:
        batch = self._running.pop(run)
        if run.cancelled():
            return
        size = sum(work.size for work in batch.works)
        self._observe(size, time.monotonic() - batch.started_s)
        for work, result in zip(batch.works, run.result(), strict=True):
            if work.future.done():
                continue
            if isinstance(result, Exception):
                work.future.set_exception(result)
            else:
                work.future.set_result(result)
        self._pump()

    def _run_batch(
        self, lane: Hashable, works: Sequence[_Work]
    ) -> list[dict[str, Array] | Exception]:
        """On a worker thread: one result or error for each request."""
        if len(works) == 1:
            return [self._run_alone(lane, works[0])]
        try:
            outputs = self._run(lane, _join([work.inputs for work in works]))
        except InvalidRequest:
            # One request's values broke the batch; alone, the others get their answers.
            return [self._run_alone(lane, work) for work in works]
        except Exception as error:  # noqa: BLE001 — each waiting request gets it
            return [_as_request_error(error)] * len(works)
        return _split(outputs, [work.size for work in works])

    def _run_alone(self, lane: Hashable, work: _Work) -> dict[str, Array] | Exception:
        try:
            return self._run(lane, work.inputs)
        except Exception as error:  # noqa: BLE001 — its request gets it
            return _as_request_error(error)


def _as_request_error(error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    wrapped = Internal(f"the model failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _slice(arrays: Arrays, start: int, stop: int) -> dict[str, Array]:
    return {name: array[start:stop] for name, array in arrays.items()}


def _join(parts: Sequence[Arrays]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _split(outputs: Arrays, sizes: Sequence[int]) -> list[dict[str, Array] | Exception]:
    total = sum(sizes)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != total:
            error = Internal(f"output {name} has shape {array.shape} for {total} instances")
            return [error] * len(sizes)
    bounds = np.cumsum([0, *sizes]).tolist()
    return [_slice(outputs, a, b) for a, b in itertools.pairwise(bounds)]
