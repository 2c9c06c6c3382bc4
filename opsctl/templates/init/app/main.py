"""A model server in TensorFlow Serving's REST protocol, standard library only.

Service port:  POST /v1/models/NAME:predict   {"instances": [[...], ...]} -> {"predictions": [...]}
               GET  /v1/models/NAME           state of the model
Health port:   GET  /health/live, /health/ready, /metrics

SIGTERM drains: readiness turns false, requests are still answered (with `Connection: close`) for
`--drain` seconds, what is in flight is finished, then the process exits with 0.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

BODY_MAX_BYTES = 16 * 1024 * 1024
DRAIN_MAX_S = 20.0
QUIET_S = 0.1
"""How long nothing may be in flight before the process ends."""


class Model:
    """score(x) = sigmoid(w . x + b): replace it with your own."""

    def __init__(self, path: Path) -> None:
        values = json.loads((path / "weights.json").read_text())
        self.weights: list[float] = values["w"]
        self.bias: float = values["b"]

    def predict(self, instances: list[list[float]]) -> list[float]:
        """One score for each instance. Raises ValueError for an instance of a wrong length."""
        return [self._score(instance) for instance in instances]

    def _score(self, instance: list[float]) -> float:
        if len(instance) != len(self.weights):
            raise ValueError(f"{len(instance)} values; the model takes {len(self.weights)}")
        total = sum(w * x for w, x in zip(self.weights, instance, strict=True)) + self.bias
        if not math.isfinite(total):
            raise ValueError("the values are too large, or not numbers")
        # The two forms are equal; each is used where exp can't overflow.
        if total >= 0:
            return 1 / (1 + math.exp(-total))
        return math.exp(total) / (1 + math.exp(total))


class Service:
    """The model with its counters and its state."""

    def __init__(self, name: str, release: str, model: Model) -> None:
        self.name = name
        self.release = release
        self.model = model
        self.draining = False
        self.in_flight = 0
        self.requests = 0
        self.errors = 0
        self.seconds = 0.0
        self.lock = threading.Lock()

    def predict(self, body: bytes) -> tuple[int, Any]:
        """Status and JSON answer of a predict request; wrong requests get 400."""
        started = time.perf_counter()
        status = 200
        answer: dict[str, Any]
        try:
            answer = {"predictions": self.model.predict(json.loads(body)["instances"])}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            status, answer = 400, {"error": f"wrong request: {error!r}"}
        with self.lock:
            self.requests += 1
            self.errors += status != 200
            self.seconds += time.perf_counter() - started
        return status, answer

    def status(self) -> tuple[int, Any]:
        """The model's state, as TensorFlow Serving tells it."""
        state = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": state}
        return 200, {"model_version_status": [version]}

    def metrics(self) -> str:
        """Counters in Prometheus' text format."""
        labels = f'{{model="{self.name}",version="{self.release}"}}'
        return (
            "# TYPE inference_requests_total counter\n"
            f"inference_requests_total{labels} {self.requests}\n"
            "# TYPE inference_errors_total counter\n"
            f"inference_errors_total{labels} {self.errors}\n"
            "# TYPE inference_latency_seconds summary\n"
            f"inference_latency_seconds_sum{labels} {self.seconds:.6f}\n"
            f"inference_latency_seconds_count{labels} {self.requests}\n"
        )


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive; answers leave in one piece."""

    service: Service
    protocol_version = "HTTP/1.1"
    server_version = "model-server"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = 120

    def handle_one_request(self) -> None:
        """One request, counted as in flight from its first byte to the end of its answer."""
        self.counted = False
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True
        finally:
            if self.counted:
                with self.service.lock:
                    self.service.in_flight -= 1

    def parse_request(self) -> bool:
        """A request line has arrived: it is in flight from here on."""
        with self.service.lock:
            self.service.in_flight += 1
        self.counted = True
        return super().parse_request()

    def answer(self, status: int, body: Any) -> None:
        """Send JSON, or text as it is."""
        is_text = isinstance(body, str)
        data = body.encode() if is_text else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Opsctl-Release", self.service.release)
        if self.service.draining or self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def refuse(self, status: int, why: str) -> None:
        """Answer without having read the body, so the connection can't be used again."""
        self.close_connection = True
        self.answer(status, {"error": why})

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the base's name
        """No line a request: the metrics tell it."""


class ServiceHandler(Handler):
    """Routes of the service port."""

    def do_GET(self) -> None:
        """State of the model."""
        if self.path == f"/v1/models/{self.service.name}":
            self.answer(*self.service.status())
        else:
            self.answer(404, {"error": f"there is no {self.path}"})

    def do_POST(self) -> None:
        """Predictions."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.refuse(411, "Content-Length is needed")
        elif int(length) > BODY_MAX_BYTES:
            self.refuse(413, f"more than {BODY_MAX_BYTES} bytes")
        else:
            body = self.rfile.read(int(length))
            if self.path == f"/v1/models/{self.service.name}:predict":
                self.answer(*self.service.predict(body))
            else:
                self.answer(404, {"error": f"there is no {self.path}"})


class HealthHandler(Handler):
    """Routes of the health port."""

    def do_GET(self) -> None:
        """Health and metrics."""
        if self.path == "/health/live":
            self.answer(200, {"status": "ok"})
        elif self.path == "/health/ready":
            draining = self.service.draining
            self.answer(503 if draining else 200, {"status": "draining" if draining else "ok"})
        elif self.path == "/metrics":
            self.answer(200, self.service.metrics())
        else:
            self.answer(404, {"error": f"there is no {self.path}"})


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error; anything else is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(service: Service, options: argparse.Namespace) -> None:
    """Listen on both ports until SIGTERM or SIGINT, then drain."""
    Handler.service = service
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    servers = [
        Server((options.host, options.port), ServiceHandler),
        Server((options.host, options.health_port), HealthHandler),
    ]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    print(f"{service.release}: serving {service.name} on port {options.port}", flush=True)
    stop.wait()
    service.draining = True
    time.sleep(options.drain)
    servers[0].shutdown()
    servers[0].server_close()
    wait_until_quiet(service)


def wait_until_quiet(service: Service) -> None:
    """Return when nothing has been in flight for a moment, or after DRAIN_MAX_S."""
    end = time.monotonic() + DRAIN_MAX_S
    quiet_since = time.monotonic()
    while time.monotonic() < end and time.monotonic() - quiet_since < QUIET_S:
        if service.in_flight:
            quiet_since = time.monotonic()
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--health-port", type=int, default=8080)
    parser.add_argument("--model", type=Path, default=Path("model"), help="folder of the model")
    parser.add_argument("--name", default="model", help="name of the model in URLs")
    parser.add_argument("--release", default=os.environ.get("OPSCTL_RELEASE", "none"))
    parser.add_argument("--drain", type=float, default=0.3, help="seconds of service after SIGTERM")
    options = parser.parse_args()
    serve(Service(options.name, options.release, Model(options.model)), options)


if __name__ == "__main__":
    main()
