"""Two HTTP servers on one event loop (and one for gRPC, if asked for), from bind to drained.

The order of a stop: readiness false and `Connection: close` on each answer, at once → serve on
for the lame-duck time, while balancers and clients move away → close the ports → let what is
under way finish → exit 0. A second signal, or the drain time limit, ends it there and then, with
exit code 1 and the number of requests that were cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop

from ascend_serving.accelerators import watch_accelerators
from ascend_serving.artifact import Artifact
from ascend_serving.errors import GrpcMissing
from ascend_serving.health import HealthApi
from ascend_serving.listen import BACKLOG
from ascend_serving.loader import Loaded
from ascend_serving.options import ServeOptions
from ascend_serving.rest import RestApi
from ascend_serving.service import Service

if TYPE_CHECKING:
    from ascend_serving.grpc_api import GrpcServer

_LOG = logging.getLogger("ascend_serving")
_CUT_OFF = 1  # exit code of a drain that did not finish
_REFUSAL_S = 0.5  # for refusals to leave


class _Server(uvicorn.Server):
    """uvicorn, without its signal handlers: both servers stop in one order, given above."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(
    options: ServeOptions,
    artifact: Artifact,
    listeners: tuple[socket.socket, socket.socket],
    loading: Future[Loaded],
    started_s: float,
) -> int:
    """Serves until a signal; the exit code. Raises the `StartError` of a failed load.

    `started_s` is the process's start on the monotonic clock, for the time to ready.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options, artifact, listeners, loading, started_s))


async def _serve(
    options: ServeOptions,
    artifact: Artifact,
    listeners: tuple[socket.socket, socket.socket],
    loading: Future[Loaded],
    started_s: float,
) -> int:
    service = Service(options, artifact)
    grpc = await _open_grpc(service)
    signals = _Signals()
    rest = _make_server(RestApi(service), options)
    health = _make_server(HealthApi(service), options)
    tasks = [
        asyncio.create_task(server.serve(sockets=[listener]))
        for server, listener in ((rest, listeners[0]), (health, listeners[1]))
    ]
    loaded = asyncio.wrap_future(loading)
    await _first_of(loaded, asyncio.ensure_future(signals.first.wait()))
    if not signals.first.is_set():
        service.start(await loaded)
        _report_ready(service, listeners, started_s)
        watcher = watch_accelerators(service.metrics, service.identity)
        await signals.first.wait()
        if watcher is not None:
            watcher.stop()
    exit_code = await _drain(service, signals, _Fronts(rest, tasks[0], grpc))
    health.should_exit = health.force_exit = True
    await tasks[1]
    service.close()
    return exit_code


async def _open_grpc(service: Service) -> GrpcServer | None:
    """The gRPC server, listening; None where none is asked for. Raises `StartError`."""
    if service.options.grpc_port is None:
        return None
    try:
        from ascend_serving.grpc_api import GrpcServer
    except ImportError as error:
        raise GrpcMissing(
            f"cannot open --grpc-port {service.options.grpc_port}",
            str(error),
            "Install grpcio for this Python, or leave the option out.",
        ) from error
    return await GrpcServer.open(service)


@dataclass(frozen=True)
class _Fronts:
    """What takes requests."""

    rest: uvicorn.Server
    rest_task: asyncio.Task[Any]
    grpc: GrpcServer | None

    def stop(self, limit_s: float) -> asyncio.Future[Any]:
        """Takes no more; done when what is under way has ended, by gRPC's own limit at last."""
        self.rest.should_exit = True
        ends: list[Awaitable[Any]] = [self.rest_task]
        if self.grpc is not None:
            ends.append(self.grpc.stop(limit_s))
        return asyncio.gather(*ends)

    async def cut_off(self) -> None:
        """Ends at once, after the refusals of what is under way have left."""
        self.rest.force_exit = True
        if self.grpc is not None:
            await self.grpc.stop(_REFUSAL_S)
        await self.rest_task


class _Signals:
    """SIGTERM and SIGINT as events: the first starts the drain, the second ends it."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


async def _drain(service: Service, signals: _Signals, fronts: _Fronts) -> int:
    options = service.options
    service.drain()
    _LOG.info("draining: not ready; serving on for %g s", options.lame_duck_s)
    if service.loaded is not None:
        await _wait(signals.second, options.lame_duck_s)
    # gRPC's own limit comes after the drain's, which decides here.
    ended = fronts.stop(options.drain_timeout_s + _REFUSAL_S)
    if not signals.second.is_set():
        stop = asyncio.ensure_future(signals.second.wait())
        await _first_of(ended, stop, timeout_s=options.drain_timeout_s)
        stop.cancel()
    if ended.done():
        _LOG.info("drained: every request was answered")
        return 0
    why = "second signal" if signals.second.is_set() else f"{options.drain_timeout_s:g} s are over"
    cut_off = service.in_flight
    _LOG.error("stopping before the drain was done (%s): %d requests cut off", why, cut_off)
    service.close()  # what is cut off gets a 503 and not a reset
    await fronts.cut_off()
    await ended
    return _CUT_OFF if cut_off else 0


async def _first_of(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _make_server(application: Any, options: ServeOptions) -> _Server:
    config = uvicorn.Config(
        application,
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=options.keep_alive_s,
        backlog=BACKLOG,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return _Server(config)


def _report_ready(
    service: Service, listeners: tuple[socket.socket, socket.socket], started_s: float
) -> None:
    loaded = service.loaded
    assert loaded is not None
    moved = f" (from {service.artifact.requested})" if service.artifact.is_moved else ""
    _LOG.info(
        "ready in %.2f s (model %.2f s): %s version %d %s at %s%s, %s, custom ops: %s, "
        "%sREST %s, health %s",
        time.monotonic() - started_s,
        loaded.seconds,
        service.options.model_name,
        service.artifact.version,
        loaded.model_hash,
        service.artifact.path,
        moved,
        loaded.backend.runtime,
        loaded.backend.op_backend,
        "gRPC {}:{}, ".format(*service.grpc_address) if service.grpc_address else "",
        *(_show_address(listener) for listener in listeners),
    )


def _show_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
