"""Real HTTP servers on 127.0.0.1 that answer as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opsctl.model import Endpoint

Reply = tuple[int, dict[str, str], bytes]
Answering = Callable[[str, str, bytes], Reply]
"""Method, path and body to status, headers and body."""


@contextmanager
def http_server(answering: Answering, name: str = "") -> Iterator[Endpoint]:
    """A server that answers every request by `answering`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            status, headers, body = answering(self.command, self.path, self.rfile.read(length))
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests have their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Endpoint("127.0.0.1", server.server_address[1], name=name)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """A server that reads the head of one request and then does whatever `talk` does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1024)
            talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Endpoint("127.0.0.1", listener.getsockname()[1])
    finally:
        # Wakes an accept that nobody answered.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()
