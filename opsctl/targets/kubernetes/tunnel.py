"""Ways to replicas: ports of this machine that lead there through the API server."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint, Replica
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.names import Names

PROTOCOL = "v4.channel.k8s.io"
"""Each frame: a byte with the channel (0 data, 1 error of the first port), then bytes."""

DATA = 0
HEADER_BYTES = 2
"""The first frame of a channel only names the port."""

BLOCK_BYTES = 32768


class Tunnels:
    """Open ways of this process, by replica and port."""

    def __init__(self, api: Api, names: Names) -> None:
        self._api = api
        self._names = names
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int], int] = {}

    def to(self, replica: Replica) -> Endpoint:
        """Where this machine reaches a replica, as long as this process lives."""
        health = replica.health_port
        return Endpoint(
            "127.0.0.1",
            self._port_to(replica.name, replica.port),
            self._port_to(replica.name, health) if health else 0,
            name=replica.name,
        )

    def _port_to(self, pod: str, port: int) -> int:
        with self._lock:
            if (pod, port) not in self._open:
                listener = socket.create_server(("127.0.0.1", 0), backlog=128)
                self._open[pod, port] = listener.getsockname()[1]
                path = self._names.path("pods", pod, "portforward")
                arguments = (listener, path, port)
                threading.Thread(target=self._accept, args=arguments, daemon=True).start()
            return self._open[pod, port]

    def _accept(self, listener: socket.socket, path: str, port: int) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            arguments = (connection, path, port)
            threading.Thread(target=self._join, args=arguments, daemon=True).start()

    def _join(self, connection: socket.socket, path: str, port: int) -> None:
        """Copy both ways until either side ends; a pod that is gone hangs up."""
        with connection:
            try:
                far = self._api.socket(path, [("ports", str(port))], PROTOCOL)
            except TargetUnreachable:
                return
            with contextlib.suppress(Exception):  # either side may break in any way
                _copy(connection, far)
            with contextlib.suppress(Exception):
                far.close(timeout=0)


def _copy(near: socket.socket, far: Any) -> None:
    """One thread for both directions: a TLS connection is not for two at a time."""
    from websocket import ABNF

    skip = {0: HEADER_BYTES, 1: HEADER_BYTES}
    poll = select.poll()
    poll.register(near, select.POLLIN)
    poll.register(far.sock, select.POLLIN)
    while True:
        pending = getattr(far.sock, "pending", lambda: 0)()
        ready = {fd for fd, _ in poll.poll(0 if pending else None)}
        if pending or far.sock.fileno() in ready:
            code, frame = far.recv_data_frame(True)
            if code == ABNF.OPCODE_CLOSE:
                return
            if code == ABNF.OPCODE_BINARY and frame.data:
                channel, data = frame.data[0], frame.data[1:]
                cut = min(skip.get(channel, 0), len(data))
                skip[channel] = skip.get(channel, 0) - cut
                if channel != DATA and data[cut:]:
                    return  # nobody listens there
                near.sendall(data[cut:])
        if near.fileno() in ready:
            block = near.recv(BLOCK_BYTES)
            if not block:
                return
            far.send(bytes([DATA]) + block, opcode=ABNF.OPCODE_BINARY)
