"""An arm that is asked by gRPC: where it listens, what it takes, and its connections.

Only a replica's own port is asked: the front door speaks HTTP/1.1 alone.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from opsctl.bench import predict_messages
from opsctl.bench.connection import Job, PoolLimits
from opsctl.bench.predict_messages import Model
from opsctl.bench.signature import Input
from opsctl.config import settings
from opsctl.config.measuring import PREDICT_PATH
from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.model import Endpoint

SERVICE = "/tensorflow.serving.PredictionService"

HEALTH_PATH = "/health"
"""Whose JSON says `grpc_port`, where bench.grpc_port is not set."""

OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # or all channels would share one connection
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


def require_grpc() -> None:
    """Raise ConfigError where grpcio or protobuf is not installed: opsctl needs neither else."""
    try:
        for name in ("grpc.aio", "google.protobuf.message"):
            importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "bench.protocol is grpc, and this opsctl cannot speak it",
            why=str(error),
            next_step='Install it: pip install "opsctl[grpc]" (or set bench.protocol to rest).',
        ) from error


def model_of(path: str) -> Model:
    """The model of a `:predict` path. Raises ConfigError for another path."""
    match = PREDICT_PATH.fullmatch(path)
    if match is None:
        raise ConfigError(
            f"bench.path {path} names no model",
            next_step="By gRPC it is /v1/models/NAME:predict or …/versions/N:predict.",
        )
    version = match["version"]
    return Model(unquote(match["name"]), None if version is None else int(version))


def located(endpoint: Endpoint, bench: settings.Bench) -> Endpoint:
    """The endpoint with its gRPC port as `port`. Raises ConfigError when the replica does not tell
    it, TargetUnreachable when it does not answer."""
    if bench.grpc_port is not None:
        return replace(endpoint, port=bench.grpc_port)
    import requests

    url = f"http://{endpoint.host}:{endpoint.health_port or endpoint.port}{HEALTH_PATH}"
    with requests.Session() as session:
        session.trust_env = False  # a replica is never behind a proxy
        try:
            answer = session.get(url, timeout=bench.timeout_s, allow_redirects=False)
        except requests.RequestException as error:
            raise TargetUnreachable(f"{url} does not answer", why=type(error).__name__) from error
    try:
        port = answer.json().get("grpc_port")
    except (ValueError, AttributeError):
        port = None
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ConfigError(
            f"{endpoint.name or endpoint.url} does not say where it speaks gRPC",
            why=f"{url} has no `grpc_port`",
            next_step="Start the service with its gRPC port (ascend_serving: --grpc-port 0), or set"
            " bench.grpc_port.",
        )
    return replace(endpoint, port=port)


def ask_inputs(
    endpoint: Endpoint, model: Model, timeout_s: float
) -> Mapping[str, tuple[Input, ...]]:
    """The inputs of each signature of a model. `endpoint` has the gRPC port.

    Raises ConfigError when it does not say, TargetUnreachable when nobody answers.
    """
    import grpc

    address = address_of(endpoint)
    with grpc.insecure_channel(address, OPTIONS) as channel:
        ask = channel.unary_unary(f"{SERVICE}/GetModelMetadata")
        try:
            answer = ask(predict_messages.metadata_request(model), timeout=timeout_s)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise TargetUnreachable(
                    f"gRPC at {address} does not answer", why=error.code().name
                ) from error
            raise ConfigError(
                "the model does not say by gRPC what it takes",
                why=f"{address} answers {error.code().name}: {error.details()}",
                next_step="Correct bench.path, or set bench.protocol to rest.",
            ) from error
    try:
        return predict_messages.signatures_of(answer)
    except ValueError as error:
        raise ConfigError(
            f"the metadata that {address} gives is none of TensorFlow Serving",
            why=str(error),
            next_step="Set bench.protocol to rest.",
        ) from error


def address_of(endpoint: Endpoint) -> str:
    """HOST:PORT as gRPC takes it."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


async def _opened(channel: Any) -> None:
    """Returns when a channel has its connection, or has failed to get one."""
    import grpc

    ends = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)
    state = channel.get_state(try_to_connect=True)
    while state not in ends:
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


class Call:
    """One request on its way; stands where a connection does in a job."""

    def __init__(self, job: Job, task: asyncio.Task[None]) -> None:
        self.job: Job | None = job
        self.task = task

    def abort(self) -> None:
        """Give it up; the server is told."""
        self.task.cancel()


class GrpcPool:
    """An arm's connections, each an HTTP/2 one that takes any number of requests at once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, limits: PoolLimits
    ) -> None:
        self.loop = loop
        self.endpoint = endpoint
        self.limits = limits
        self.reconnects = 0
        self.channels: list[Any] = []
        self.methods: list[Any] = []
        self.sent = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Open all connections before the first request. One that can't be opened fails requests
        later, as it would any client."""
        import grpc.aio

        for _ in range(self.limits.connections - len(self.channels)):
            channel = grpc.aio.insecure_channel(address_of(self.endpoint), OPTIONS)
            self.channels.append(channel)
            self.methods.append(channel.unary_unary(f"{SERVICE}/Predict"))
        openings = [asyncio.ensure_future(_opened(channel)) for channel in self.channels]
        _, pending = await asyncio.wait(openings, timeout=self.limits.timeout_s)
        for opening in pending:
            opening.cancel()

    def submit(self, job: Job) -> None:
        """Send now, over the connection whose turn it is."""
        method = self.methods[self.sent % len(self.methods)]
        self.sent += 1
        task = self.loop.create_task(self._ask(method, job))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        job.connection = Call(job, task)

    async def _ask(self, method: Any, job: Job) -> None:
        import grpc

        left = job.scheduled + self.limits.timeout_s - time.monotonic()
        try:
            await method(job.payload, timeout=max(left, 0.0))
        except grpc.RpcError as error:
            code = error.code()
            timed_out = code is grpc.StatusCode.DEADLINE_EXCEEDED
            job.connection = None
            job.failed("timeout" if timed_out else f"gRPC {code.name}")
        else:
            job.connection = None
            job.answered(200)

    async def close(self) -> None:
        """Close every connection; what is on its way is given up."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*(channel.close() for channel in self.channels))
