"""One keep-alive HTTP/1.1 connection and the pool of an arm's connections."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import httptools

from opsctl.model import Endpoint

RESENDS_MAX = 3
"""How often a request is sent again after a server closed its connection before answering."""

HTTP_OK = range(200, 300)


class Job:
    """One request on its way. `latency` counts from `scheduled`; an error leaves it infinite."""

    __slots__ = (
        "arm",
        "connection",
        "done",
        "error",
        "latency",
        "on_done",
        "payload",
        "resends",
        "scheduled",
    )

    def __init__(
        self, arm: int, scheduled: float, payload: bytes, on_done: Callable[[Job], None]
    ) -> None:
        self.arm = arm
        self.scheduled = scheduled
        self.payload = payload
        self.on_done = on_done
        self.connection: Abortable | None = None
        self.resends = 0
        self.done = False
        self.error = ""
        self.latency = float("inf")

    def answered(self, status: int) -> None:
        """End with an answer; only 2xx has a latency."""
        if status in HTTP_OK:
            self.latency = time.monotonic() - self.scheduled
            self._finish("")
        else:
            self._finish(f"HTTP {status}")

    def failed(self, error: str) -> None:
        """End without an answer."""
        self._finish(error)

    def _finish(self, error: str) -> None:
        if not self.done:
            self.done = True
            self.error = error
            self.on_done(self)


class Connection(asyncio.Protocol):
    """Sends one request at a time and times its answer."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.job: Job | None = None
        self.transport: asyncio.Transport | None = None
        self.parser = httptools.HttpResponseParser(self)
        self.answer_began = False
        self.ends_at_close = False
        self.served = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream protocol gets this kind

    def send(self, job: Job) -> None:
        self.job = job
        job.connection = self
        self.answer_began = False
        self.ends_at_close = True
        if self.transport is not None:
            self.transport.write(job.payload)

    def data_received(self, data: bytes) -> None:
        if self.job is None:
            self.abort()
            return
        self.answer_began = True
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._drop("malformed answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser. A body of known length does not end with the connection."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self.ends_at_close = False

    def on_message_complete(self) -> None:
        """Called by the parser, for interim answers (1xx) too, which are passed over."""
        status = self.parser.get_status_code()
        job = self.job
        if job is None or status < HTTP_OK.start:
            return
        self.job = None
        self.served += 1
        keep = self.parser.should_keep_alive()
        job.connection = None
        job.answered(status)
        if keep:
            self.pool.idle_again(self)
        else:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.pool.lost(self)
        job, self.job = self.job, None
        if job is None or job.done:
            return
        job.connection = None
        if not self.answer_began and self.served and job.resends < RESENDS_MAX:
            job.resends += 1
            self.pool.reconnects += 1
            self.pool.submit(job)
        elif self.answer_began and self.ends_at_close and error is None:
            job.answered(self.parser.get_status_code())
        else:
            job.failed("connection closed")

    def _drop(self, error: str) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.connection = None
            job.failed(error)
        self.abort()

    def abort(self) -> None:
        """Close at once; whatever is on its way is lost."""
        if self.transport is not None:
            self.transport.abort()


@dataclass(frozen=True)
class PoolLimits:
    """Connections of an arm, and the time that opening one (by gRPC, a request too) may take."""

    connections: int
    timeout_s: float


class Carrier(Protocol):
    """What takes an arm's requests to it."""

    loop: asyncio.AbstractEventLoop
    limits: PoolLimits
    reconnects: int

    def submit(self, job: Job) -> None:
        """Send now, or as soon as a connection is free."""

    async def warm(self) -> None:
        """Open all connections before the first request, so that none pays for it."""

    async def close(self) -> None:
        """Close every connection and wait for openings to end."""


class Abortable(Protocol):
    """What a request on its way holds: a connection, or its place in one."""

    job: Job | None

    def abort(self) -> None:
        """Close at once; whatever is on its way is lost."""


class Pool:
    """An arm's connections. Requests wait here when all are busy; waiting counts as latency."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, limits: PoolLimits
    ) -> None:
        self.loop = loop
        self.endpoint = endpoint
        self.limits = limits
        self.idle: list[Connection] = []
        self.open: set[Connection] = set()
        self.opening: set[asyncio.Task[None]] = set()
        self.waiting: deque[Job] = deque()
        self.reconnects = 0
        self.closed = False
        self.tls = ssl.create_default_context() if endpoint.tls else None

    def submit(self, job: Job) -> None:
        """Send now, or as soon as a connection is free."""
        while self.idle:
            connection = self.idle.pop()
            if connection.transport is not None and not connection.transport.is_closing():
                connection.send(job)
                return
        self.waiting.append(job)
        self._open_more()

    def _open_more(self) -> None:
        room = self.limits.connections - len(self.open) - len(self.opening)
        if not self.closed and room > 0 and len(self.opening) < len(self.waiting):
            self._start_opening()

    def _start_opening(self) -> None:
        task = self.loop.create_task(self._connect())
        self.opening.add(task)
        task.add_done_callback(self._opening_ended)

    def _opening_ended(self, task: asyncio.Task[None]) -> None:
        """Only now is there room for another one: who still waits must not need a next request."""
        self.opening.discard(task)
        self._open_more()

    async def _connect(self) -> None:
        try:
            _, connection = await asyncio.wait_for(
                self.loop.create_connection(
                    lambda: Connection(self), self.endpoint.host, self.endpoint.port, ssl=self.tls
                ),
                self.limits.timeout_s,
            )
        except (OSError, TimeoutError) as error:
            self._connect_failed(type(error).__name__)
            return
        if self.closed:
            connection.abort()
            return
        self.open.add(connection)
        self.idle_again(connection)

    def _connect_failed(self, error: str) -> None:
        """One failed attempt fails one waiting request; the next one tries again."""
        while self.waiting:
            job = self.waiting.popleft()
            if not job.done:
                job.failed(f"cannot connect: {error}")
                break

    def idle_again(self, connection: Connection) -> None:
        """Take a free connection back: it serves the longest waiting request, or rests."""
        while self.waiting:
            job = self.waiting.popleft()
            if not job.done:
                connection.send(job)
                return
        self.idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a closed connection; open another when requests wait."""
        self.open.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)
        self._open_more()

    async def warm(self) -> None:
        """Open all connections before the first request, so that none pays for it."""
        for _ in range(self.limits.connections - len(self.open)):
            self._start_opening()
        await asyncio.gather(*self.opening)

    async def close(self) -> None:
        """Close every connection and wait for openings to end."""
        self.closed = True
        self.waiting.clear()
        for task in self.opening:
            task.cancel()
        await asyncio.gather(*self.opening, return_exceptions=True)
        for connection in list(self.open):
            connection.abort()
        await asyncio.sleep(0)
