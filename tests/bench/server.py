"""A small real HTTP server whose speed and faults are set, one process of its own.

    python -m tests.bench.server '{"service_ms": 1.0, "stall_ms": 200}'

It prints its port and serves until it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httptools
import uvloop

from opsctl.model import Endpoint

ROOT = Path(__file__).resolve().parents[2]


TIED = ("setpriv", "--pdeathsig", "KILL")
"""In front of a command: it dies with the process that starts it, however that ends."""


@dataclass(frozen=True)
class Behaviour:
    """How the server answers."""

    service_ms: float = 1.0
    """CPU time of a request …"""
    spread: float = 0.1
    """… with this standard deviation of its logarithm."""
    stall_ms: float = 0.0
    stall_every_s: float = 2.0
    """The whole server stands still for `stall_ms` at the start of each such period."""
    error_rate: float = 0.0
    close_after: int = 0
    """Requests after which a connection is closed without a word (0: never)."""
    hang_rate: float = 0.0
    """Share of requests that are never answered."""
    cpus: tuple[int, ...] = ()
    metrics: str = ""
    """What GET /metrics answers, in Prometheus' text format."""
    metadata: str = ""
    """What a path that ends with /metadata answers."""


class Protocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, behaviour: Behaviour, started: float) -> None:
        self.behaviour = behaviour
        self.started = started
        self.parser = httptools.HttpRequestParser(self)
        self.served = 0
        self.body = self.path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # TCP

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.body = self.path = b""

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        how = self.behaviour
        if self.path == b"/metrics":
            self._write(b"200 OK", how.metrics.encode())
            return
        if how.metadata and self.path.endswith(b"/metadata"):
            self._write(b"200 OK", how.metadata.encode())
            return
        if how.stall_ms:
            phase = (time.monotonic() - self.started) % how.stall_every_s
            time.sleep(max(0.0, how.stall_ms / 1000.0 - phase))
        busy_until = time.perf_counter() + how.service_ms / 1000.0 * random.lognormvariate(
            0.0, how.spread
        )
        while time.perf_counter() < busy_until:
            pass
        if random.random() < how.hang_rate:
            return
        self._answer(failed=random.random() < how.error_rate)

    def _answer(self, *, failed: bool) -> None:
        self._write(b"503 Service Unavailable" if failed else b"200 OK", self.body or b"{}")
        self.served += 1
        if self.served == self.behaviour.close_after:
            self.transport.close()

    def _write(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)


async def serve(behaviour: Behaviour) -> None:
    if behaviour.cpus:
        os.sched_setaffinity(0, behaviour.cpus)
    started = time.monotonic()
    server = await asyncio.get_running_loop().create_server(
        lambda: Protocol(behaviour, started), "127.0.0.1", 0
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@dataclass(frozen=True)
class Served:
    """A running server."""

    endpoint: Endpoint
    process: subprocess.Popen[str]


@contextmanager
def running(behaviour: Behaviour) -> Iterator[Served]:
    """A server process; it is gone afterwards."""
    with started("tests.bench.server", behaviour) as served:
        yield served


@contextmanager
def started(module: str, behaviour: Behaviour) -> Iterator[Served]:
    """A process of a module that prints its port; it is gone afterwards."""
    process = subprocess.Popen(
        [*TIED, sys.executable, "-m", module, json.dumps(asdict(behaviour))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield Served(Endpoint("127.0.0.1", port), process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def refusing() -> Iterator[Endpoint]:
    """Address that refuses connections; it is kept, so that no other process can listen there."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield Endpoint(*kept.getsockname())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    uvloop.run(serve(Behaviour(**{**given, "cpus": tuple(given.get("cpus", ()))})))
