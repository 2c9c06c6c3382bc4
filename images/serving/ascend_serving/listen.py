"""Listening sockets, bound before anything slow happens."""

from __future__ import annotations

import socket

from ascend_serving.errors import PortTaken

BACKLOG = 2048  # connections that may wait to be accepted


def bind(host: str, port: int, option: str) -> socket.socket:
    """A listening socket. Raises `PortTaken`; binding early makes that the first thing known."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port}",
            error.strerror or str(error),
            f"Stop what listens there (ss -ltnp 'sport = :{port}' names it) or set {option}.",
        ) from error
    return listener
