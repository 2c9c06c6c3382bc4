"""A light service in TensorFlow Serving's REST protocol: a stand-in that starts in 0.1 s.

Only the standard library, so that `python -S -E light.py` can run it. It computes w·x + b with
the weights of its model file. What is wrong with it stands in `fault.json` beside this file, so a
fault is part of a release's content like any other change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

HOST = os.environ.get("OPSCTL_HOST", "127.0.0.1")
HEADER_END = b"\r\n\r\n"
BODY_MAX_BYTES = 16 * 1024 * 1024
LINGER_S = 0.2
"""SIGTERM to the last accept: what was already on its way to this process still gets an answer."""

DRAIN_MAX_S = 20.0
USER_AGENT = "opsctl-test-user"
"""Requests of the campaigns' client, as told from probes and benchmarks."""

PROBE_AGENT = "opsctl"
"""Health probes of opsctl itself, as told from the load balancer's."""

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass
class Fault:
    """What is wrong with this release; nothing by default."""

    exit_at_start: int | None = None
    hang_at_start: bool = False
    health_status: int = 200
    health_flaps: int = 0
    """Of opsctl's own probes so many are good in a row, then one is bad, over and over."""
    dies_after_s: float = 0.0
    value_error: float = 0.0
    """Added to each prediction."""
    wrong_shape: bool = False
    slower_percent: float = 0.0
    """Of `--work-ms`."""
    slower_by: str = "sleep"
    """`sleep`, or `busy` to burn the CPU and hold up every other request."""
    leak_mb_per_s: float = 0.0
    ignores_sigterm: bool = False
    fixed_port: int = 0
    """Binds this port instead of the one that it was given."""
    model_missing: bool = False
    queue_length: float | None = 4.0
    """A gauge that it tells of itself; None: no such gauge."""
    user_errors_percent: float = 0.0
    """Share of users' requests that get 500; probes and benchmarks get none."""

    @classmethod
    def read(cls, path: Path) -> Fault:
        """The fault in `path`; none when there is no such file. Raises on an unknown name."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()


@dataclass(frozen=True)
class Request:
    """What the routes need of a request."""

    method: str
    path: str
    agent: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """Status, JSON (or text) body, and how long to think about it, in seconds."""

    status: int
    body: Any
    delay_s: float = 0.0


class Service:
    """The routes, apart from HTTP's framing."""

    def __init__(self, options: argparse.Namespace, fault: Fault) -> None:
        self.fault = fault
        self.release: str = options.release
        self.work_s = options.work_ms / 1000
        model = Path(options.model)
        if model.is_dir():
            model = model / "weights.json"
        if fault.model_missing:
            model = model.with_name("absent.json")
        weights = json.loads(model.read_text())
        self.weights: list[float] = weights["w"]
        self.bias: float = weights["b"]
        self.draining = False
        self.probes = 0
        self.requests = 0
        self.errors = 0
        self.leaked: list[bytes] = []
        # Seeded, so that a run can be repeated.
        self.random = random.Random(1)

    def answer(self, request: Request) -> Answer:
        """Route a request on the service port."""
        if request.method == "POST" and request.path == "/v1/models/light:predict":
            self.requests += 1
            answer = self.predict(request)
            self.errors += answer.status != 200
            return answer
        if request.method == "GET" and request.path == "/v1/models/light":
            status = {"error_code": "OK", "error_message": ""}
            version = {"version": "1", "state": "AVAILABLE", "status": status}
            return Answer(200, {"model_version_status": [version]})
        return Answer(404, {"error": f"no route for {request.method} {request.path}"})

    def predict(self, request: Request) -> Answer:
        """w·x + b of each instance, as a column."""
        try:
            instances = json.loads(request.body)["instances"]
            values = [self.score(instance) for instance in instances]
        except (ValueError, KeyError, TypeError) as error:
            return Answer(400, {"error": f"wrong request: {error!r}"})
        share = self.fault.user_errors_percent / 100
        if share and request.agent == USER_AGENT and self.random.random() < share:
            return Answer(500, {"error": "the fault of this release"})
        extra_s = self.work_s * self.fault.slower_percent / 100
        if extra_s and self.fault.slower_by == "busy":
            end = time.perf_counter() + extra_s
            while time.perf_counter() < end:
                pass
            extra_s = 0.0
        predictions = values if self.fault.wrong_shape else [[value] for value in values]
        return Answer(200, {"predictions": predictions}, self.work_s + extra_s)

    def score(self, instance: list[float]) -> float:
        """One prediction. Raises ValueError for an instance of another length."""
        if len(instance) != len(self.weights):
            raise ValueError(f"{len(instance)} values where the model has {len(self.weights)}")
        total = sum(w * x for w, x in zip(self.weights, instance, strict=True)) + self.bias
        return total + self.fault.value_error

    def health(self, request: Request) -> Answer:
        """Route a request on the health port."""
        if request.path in ("/health/live", "/health/ready"):
            status = self.fault.health_status
            if self.fault.health_flaps and request.agent == PROBE_AGENT:
                status = 503 if self.probes % (self.fault.health_flaps + 1) == 0 else status
                self.probes += 1
            if request.path == "/health/ready" and self.draining:
                status = 503
            return Answer(status, {"status": "ok" if status == 200 else "unavailable"})
        if request.path == "/metrics":
            length = self.fault.queue_length
            return Answer(
                200,
                f"# TYPE inference_requests_total counter\n"
                f"inference_requests_total {self.requests}\n"
                f"# TYPE inference_errors_total counter\n"
                f"inference_errors_total {self.errors}\n"
                + ("" if length is None else f"# TYPE queue_length gauge\nqueue_length {length}\n"),
            )
        return Answer(404, {"error": f"no route for {request.method} {request.path}"})


Route = Callable[[Request], Answer]


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: answers in order, keeps alive, closes when the service drains."""

    def __init__(self, server: Server, route: Route) -> None:
        self.server = server
        self.route = route
        self.buffer = bytearray()
        self.transport: asyncio.Transport | None = None
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.take_request()

    def take_request(self) -> None:
        """Start on the next request once all of it is there and the one before is answered."""
        head_length = self.buffer.find(HEADER_END)
        if self.busy or head_length < 0:
            return
        lines = self.buffer[:head_length].decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = int(headers.get("content-length", "0"))
        if "transfer-encoding" in headers or length > BODY_MAX_BYTES:
            self.busy = True
            status = 413 if length else 411
            self.send(Answer(status, {"error": REASONS[status]}), close=True)
            return
        end = head_length + len(HEADER_END) + length
        if len(self.buffer) < end:
            return
        body = bytes(self.buffer[head_length + len(HEADER_END) : end])
        del self.buffer[:end]
        self.busy = True
        method, path, *_ = lines[0].split(" ")
        answer = self.route(Request(method, path, headers.get("user-agent", ""), body))
        close = headers.get("connection", "").lower() == "close"
        if answer.delay_s:
            asyncio.get_running_loop().call_later(answer.delay_s, self.send, answer, close)
        else:
            self.send(answer, close)

    def send(self, answer: Answer, close: bool) -> None:
        """Write the answer; go on with a request that is already in the buffer."""
        self.busy = False
        if self.transport is None:
            return
        close = close or self.server.service.draining
        is_text = isinstance(answer.body, str)
        body = (answer.body if is_text else json.dumps(answer.body)).encode()
        self.transport.write(
            (
                f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Unknown')}\r\n"
                f"Content-Type: {'text/plain' if is_text else 'application/json'}\r\n"
                f"Content-Length: {len(body)}\r\n"
                f"X-Light-Release: {self.server.service.release}\r\n"
                f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
            ).encode()
            + body
        )
        if close:
            self.transport.close()
        elif self.buffer:
            self.take_request()


class Server:
    """Both ports and the life of the process."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.connections: set[Connection] = set()
        self.stop = asyncio.Event()

    async def run(self, port: int, health_port: int) -> None:
        """Serve until SIGTERM, then drain. Raises OSError when a port is taken."""
        loop = asyncio.get_running_loop()
        fault = self.service.fault
        if fault.ignores_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            loop.add_signal_handler(signal.SIGTERM, self.stop.set)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        listeners = [
            await loop.create_server(
                lambda: Connection(self, self.service.answer), HOST, port, backlog=1024
            ),
            await loop.create_server(
                lambda: Connection(self, self.service.health), HOST, health_port
            ),
        ]
        if fault.dies_after_s:
            loop.call_later(fault.dies_after_s, os._exit, 1)
        if fault.leak_mb_per_s:
            self.leak()
        print(f"light {self.service.release} listens on {port}, health {health_port}", flush=True)
        await self.stop.wait()
        self.service.draining = True
        await asyncio.sleep(LINGER_S)
        for listener in listeners:
            listener.close()
        await self.drain()

    def leak(self) -> None:
        """Lose memory, a tenth of a second's worth now."""
        self.service.leaked.append(b"\x01" * int(self.service.fault.leak_mb_per_s * 100_000))
        asyncio.get_running_loop().call_later(0.1, self.leak)

    async def drain(self) -> None:
        """Close idle connections and wait for the busy ones."""
        deadline = time.monotonic() + DRAIN_MAX_S
        while self.connections and time.monotonic() < deadline:
            for connection in list(self.connections):
                if not connection.busy and connection.transport is not None:
                    connection.transport.close()
            await asyncio.sleep(0.01)


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--model", required=True, help="weights.json, or the folder that has it")
    parser.add_argument("--release", default=os.environ.get("OPSCTL_RELEASE", ""))
    parser.add_argument("--work-ms", type=float, default=0.0, help="time a prediction takes")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    fault = Fault.read(Path(__file__).with_name("fault.json"))
    if fault.exit_at_start is not None:
        print("light: told to exit at start", file=sys.stderr)
        return fault.exit_at_start
    while fault.hang_at_start:
        time.sleep(1)
    try:
        service = Service(options, fault)
    except OSError as error:
        print(f"light: cannot load the model: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(Server(service).run(fault.fixed_port or options.port, options.health_port))
    except OSError as error:
        print(f"light: cannot listen: {error}", file=sys.stderr)
        return 3
    return 0


FAULT_NAMES = frozenset(field.name for field in fields(Fault))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
