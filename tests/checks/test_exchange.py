"""One request against real servers, polite and rude ones."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from opsctl.checks.exchange import Request, exchange
from opsctl.errors import Aborted
from opsctl.model import Endpoint
from tests.checks.servers import Reply, http_server, raw_server

GET = Request("GET", "/x", timeout_s=5)


def test_status_headers_body_and_the_answering_release_come_back() -> None:
    def echo(method: str, path: str, body: bytes) -> Reply:
        return 201, {"X-Opsctl-Release": "r12"}, f"{method} {path} ".encode() + body

    with http_server(echo) as server:
        answer = exchange(server, Request("POST", "/p?q=1", {"A": "b"}, b"body", 5))
    assert (answer.status, answer.body, answer.error) == (201, b"POST /p?q=1 body", "")
    assert answer.release == "r12"
    assert 0 < answer.duration_s < 5


def test_a_large_answer_comes_back_whole() -> None:
    body = bytes(range(256)) * 4096
    with http_server(lambda *_: (200, {}, body)) as server:
        assert exchange(server, GET).body == body


def test_a_chunked_answer_comes_back_whole() -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    with raw_server(talk) as server:
        assert exchange(server, GET).body == b"abcde"


def test_nobody_there_is_an_error_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = exchange(Endpoint("127.0.0.1", port), GET)
    assert (answer.status, answer.error) == (0, "[Errno 111] Connection refused")


def test_a_connection_closed_without_answer_is_an_error() -> None:
    with raw_server(lambda connection: None) as server:
        answer = exchange(server, GET)
    assert (answer.status, answer.error) == (
        0,
        "Remote end closed connection without response",
    )


def test_an_answer_that_breaks_off_is_an_error() -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")

    with raw_server(talk) as server:
        answer = exchange(server, GET)
    assert answer.error == "the answer broke off 7 bytes before its end"


def test_what_is_no_http_is_an_error() -> None:
    with raw_server(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9\r\n")) as server:
        answer = exchange(server, GET)
    assert (answer.status, answer.error) == (
        0,
        "the answer is no valid HTTP (SSH-2.0-OpenSSH_9)",
    )


def test_a_byte_now_and_then_does_not_stretch_the_time_limit() -> None:
    def talk(connection: socket.socket) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 60:
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            closed.set()

    closed = threading.Event()
    with raw_server(talk) as server:
        answer = exchange(server, replace(GET, timeout_s=0.3))
        assert answer.error == "no whole answer within 0.3 s"
        assert answer.duration_s >= 0.3
        assert closed.wait(60)


def test_a_request_is_stopped_at_once() -> None:
    def interrupt() -> None:
        if time.monotonic() - began > 0.2:
            raise Aborted("stop")

    def talk(connection: socket.socket) -> None:
        ended.append(connection.recv(1))

    ended: list[bytes] = []
    with raw_server(talk) as server:
        began = time.monotonic()
        with pytest.raises(Aborted):
            exchange(server, replace(GET, timeout_s=60), interrupt)
        assert time.monotonic() - began < 30
    assert ended == [b""]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
def test_a_front_door_with_its_own_certificate_is_asked_all_the_same(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=service.example", "-keyout", key, "-out", certificate],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests have their own output."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answer = exchange(Endpoint("127.0.0.1", server.server_address[1], tls=True), GET)
        thread.join()
    assert (answer.status, answer.error) == (204, "")
