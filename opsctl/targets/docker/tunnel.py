"""Reaching an address of the Docker host from another machine: through the agent, by `exec`."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace

from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint
from opsctl.targets.docker.channel import RELAY, Pipe
from opsctl.targets.docker.engine import Engine

BLOCK_BYTES = 65536

_open: dict[tuple[str, str, int], int] = {}
"""Ports of this process that lead to an address, by engine, host and port."""

_lock = threading.Lock()


def through(engine: Engine, agent: str, endpoint: Endpoint) -> Endpoint:
    """The endpoint with addresses of this machine that lead there while this process lives."""
    health_port = endpoint.health_port
    if health_port:
        health_port = _port_to(engine, agent, endpoint.host, health_port)
    port = _port_to(engine, agent, endpoint.host, endpoint.port)
    return replace(endpoint, host="127.0.0.1", port=port, health_port=health_port)


def _port_to(engine: Engine, agent: str, host: str, port: int) -> int:
    with _lock:
        key = (engine.address, host, port)
        if key not in _open:
            listener = socket.create_server(("127.0.0.1", 0))
            _open[key] = listener.getsockname()[1]
            argv = [*RELAY, "tcp", host, str(port)]
            arguments = (listener, engine, agent, argv)
            threading.Thread(target=_accept, args=arguments, daemon=True).start()
        return _open[key]


def _accept(listener: socket.socket, engine: Engine, agent: str, argv: list[str]) -> None:
    while True:
        connection, _ = listener.accept()
        arguments = (connection, engine, agent, argv)
        threading.Thread(target=_join, args=arguments, daemon=True).start()


def _join(connection: socket.socket, engine: Engine, agent: str, argv: list[str]) -> None:
    """Copy both ways; a relay that can't get there hangs up, as the address itself would."""
    with connection:
        try:
            pipe = Pipe(engine, agent, argv)
        except TargetUnreachable:
            return
        pipe.settimeout(None)
        threading.Thread(target=_upload, args=(connection, pipe), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := pipe.read():
                connection.sendall(data)
        pipe.close()


def _upload(connection: socket.socket, pipe: Pipe) -> None:
    with contextlib.suppress(OSError):
        while data := connection.recv(BLOCK_BYTES):
            pipe.write(data)
    pipe.shutdown()
