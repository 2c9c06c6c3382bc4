"""One HTTP request with a time limit on the whole of it, that can be stopped at any moment.

http.client's own time limit starts again with every received byte, so that a server that sends a
byte a second holds its client for ever; here a deadline closes the connection.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opsctl.model import Endpoint

RELEASE_HEADER = "X-Opsctl-Release"
"""Response header with the release that answered; the balancer adds it."""

ANSWER_MAX_BYTES = 64 << 20
"""An answer longer than this is an error: it would fill the memory of opsctl."""

POLL_S = 0.05
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Request:
    """What is asked. `timeout_s` limits connecting, sending and receiving together."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout_s: float = 10.0


@dataclass(frozen=True)
class Answer:
    """What came back; `error` says why nothing did (`status` is 0 then)."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    duration_s: float = 0.0
    error: str = ""

    @property
    def release(self) -> str:
        """The release that answered, as the balancer says; empty without a balancer."""
        return self.headers.get(RELEASE_HEADER.lower(), "")


def exchange(
    endpoint: Endpoint, request: Request, interrupt: Callable[[], None] | None = None
) -> Answer:
    """Send the request on a connection of its own. Raises only what `interrupt` raises."""
    call = _Call(endpoint, request)
    worker = threading.Thread(target=call.run, name="exchange", daemon=True)
    worker.start()
    deadline = call.begin + request.timeout_s
    try:
        while worker.is_alive() and (left := deadline - time.monotonic()) > 0:
            worker.join(min(left, POLL_S))
            if interrupt and worker.is_alive():
                interrupt()
        # Asked before the connection is closed, as closing it makes an answer of its own.
        answer = call.answer
    finally:
        call.close()
    return answer or call.late()


class _Call:
    """The request while it runs in a thread; `close` ends it from outside."""

    def __init__(self, endpoint: Endpoint, request: Request) -> None:
        self._request = request
        self._connection = _connection(endpoint, request.timeout_s)
        self.begin = time.monotonic()
        self.answer: Answer | None = None

    def run(self) -> None:
        try:
            status, headers, body = self._ask()
        except TimeoutError:
            self.answer = self.late()
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = _in_words(error)
            self.answer = Answer(duration_s=time.monotonic() - self.begin, error=reason)
        else:
            self.answer = Answer(status, headers, body, time.monotonic() - self.begin)
        finally:
            self._connection.close()

    def late(self) -> Answer:
        """What is told when the time limit has passed."""
        said = f"no whole answer within {self._request.timeout_s:g} s"
        return Answer(duration_s=time.monotonic() - self.begin, error=said)

    def close(self) -> None:
        sock = self._connection.sock
        if sock is not None and self.answer is None:
            # Unlike close, this wakes the thread that reads from the socket.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _ask(self) -> tuple[int, dict[str, str], bytes]:
        request = self._request
        self._connection.request(
            request.method, request.path, body=request.body, headers=dict(request.headers)
        )
        response = self._connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        chunks, size = [], 0
        while chunk := response.read(CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > ANSWER_MAX_BYTES:
                raise ValueError(f"the answer is longer than {ANSWER_MAX_BYTES >> 20} MiB")
        if response.length:
            # http.client tells a connection that broke in the middle only for whole reads.
            raise ValueError(f"the answer broke off {response.length} bytes before its end")
        return response.status, headers, b"".join(chunks)


def _in_words(error: Exception) -> str:
    said = str(error).strip() or type(error).__name__
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return f"the answer is no valid HTTP ({said})"
    return said


def _connection(endpoint: Endpoint, timeout_s: float) -> http.client.HTTPConnection:
    if not endpoint.tls:
        return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    # The check asks whether this very socket serves; whom its certificate names is no question
    # of an address like 127.0.0.1.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(
        endpoint.host, endpoint.port, timeout=timeout_s, context=context
    )
