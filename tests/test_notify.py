"""Webhooks against a real server: repeated, signed, and never in the way."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from opsctl import notify as module
from opsctl.config.settings import Notification, SecretSource
from opsctl.notify import Delivery, begin, longest_s, notify, signature

PAYLOAD = {"service": "light", "release": "r13", "reason": "smoke: ± wrong"}


@dataclass
class Receiver:
    """What arrived, and the statuses to answer with (the last one for ever)."""

    statuses: list[int]
    url: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@contextmanager
def receiver(*statuses: int) -> Iterator[Receiver]:
    got = Receiver(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.times.append(time.monotonic())
            got.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(got.statuses[min(len(got.requests), len(got.statuses)) - 1])
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests have their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got.url = f"http://127.0.0.1:{server.server_address[1]}/hooks/T0P-S3CRET"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.05)


def send(notification: Notification, root: Path = Path()) -> Delivery:
    (delivery,) = notify([notification], "finished", PAYLOAD, root)
    return delivery


def to(url: str, **changes: Any) -> Notification:
    return replace(Notification(url, timeout_s=5.0), **changes)


def test_a_webhook_gets_the_payload_with_event_and_time() -> None:
    before = time.time()
    with receiver(204) as got:
        delivery = send(to(got.url))
    assert delivery == Delivery("127.0.0.1", "finished", 1, 204)
    ((headers, body),) = got.requests
    sent = json.loads(body)
    assert before <= sent.pop("time") <= time.time()
    assert sent.pop("delivery") == headers["x-opsctl-delivery"]
    assert sent == {**PAYLOAD, "event": "finished"}
    assert headers["content-type"] == "application/json"
    assert headers["x-opsctl-event"] == "finished"
    assert "x-opsctl-signature" not in headers


def test_a_server_that_fails_twice_gets_a_third_try_after_growing_pauses() -> None:
    with receiver(500, 503, 200) as got:
        delivery = send(to(got.url, tries=3))
    assert (delivery.ok, delivery.tries, delivery.status) == (True, 3, 200)
    first, second, third = got.times
    assert second - first >= 0.5
    assert third - second >= 1.0
    # A receiver can tell that it is the same delivery.
    assert len({headers["x-opsctl-delivery"] for headers, _ in got.requests}) == 1
    assert len({body for _, body in got.requests}) == 1


@pytest.mark.usefixtures("_short_pauses")
@pytest.mark.parametrize(
    ("status", "tries"), [(500, 3), (429, 3), (400, 1), (404, 1), (302, 1), (307, 1)]
)
def test_only_what_may_pass_is_tried_again(status: int, tries: int) -> None:
    with receiver(status) as got:
        delivery = send(to(got.url, tries=3))
    assert (len(got.requests), delivery.tries, delivery.status) == (tries, tries, status)
    assert delivery.warning == f"webhook to 127.0.0.1 failed: status {status}"


def test_the_signature_is_the_hmac_that_openssl_and_rfc_4231_know(tmp_path: Path) -> None:
    # RFC 4231, test case 2.
    assert signature("Jefe", b"what do ya want for nothing?") == (
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )
    (tmp_path / "key").write_text("Jefe\n")
    with receiver(200) as got:
        assert send(to(got.url, secret=SecretSource(file="key")), tmp_path).ok
    ((headers, body),) = got.requests
    wanted = hmac.new(b"Jefe", body, hashlib.sha256).hexdigest()
    assert headers["x-opsctl-signature"] == f"sha256={wanted}"


def test_a_webhook_without_its_key_is_not_sent(tmp_path: Path) -> None:
    with receiver(200) as got:
        delivery = send(to(got.url, secret=SecretSource(file="gone")), tmp_path)
    assert got.requests == []
    assert delivery.tries == 0
    assert delivery.warning == (
        "webhook to 127.0.0.1 was not sent: no value for 1 of 1 secrets:"
        " notifications.secret (file gone): No such file or directory."
        " Provide them as opsctl.yaml says (app.secrets), then run the same again"
    )


def test_only_wanted_events_are_sent() -> None:
    with receiver(200) as got:
        assert notify([to(got.url, events=("failed",))], "finished", PAYLOAD, Path()) == ()
    assert got.requests == []


@pytest.mark.usefixtures("_short_pauses")
def test_nobody_there_is_a_warning_without_the_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    delivery = send(to(f"http://127.0.0.1:{port}/hooks/T0P-S3CRET", tries=2))
    assert (delivery.tries, delivery.status) == (2, 0)
    assert delivery.warning == "webhook to 127.0.0.1 failed: ConnectionError"


def test_an_address_that_is_none_is_a_warning_and_tried_once() -> None:
    delivery = send(to("ftp://chat.example/x", tries=3))
    assert delivery.warning == "webhook to chat.example failed: InvalidSchema"
    assert delivery.tries == 1


def test_whatever_a_url_does_to_the_client_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    # Such URLs are refused when opsctl.yaml is read; a delivery must not lean on that.
    assert send(to("http://[::1")).warning == "webhook to nowhere failed: InvalidURL"
    assert send(to("http://127.0.0.1:99999/")).warning.startswith("webhook to 127.0.0.1 failed: ")

    def fails(*arguments: object, **named: object) -> None:
        raise RuntimeError("https://chat.example/hooks/T0P-S3CRET")

    monkeypatch.setattr("requests.Session.post", fails)
    delivery = send(to("http://chat.example/x"))
    assert delivery.warning == "webhook to chat.example failed: RuntimeError"
    assert not delivery.ok


@contextmanager
def dripping_server() -> Iterator[str]:
    """Sends a byte of its answer's head now and then, for ever."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ended.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ended.set()
        thread.join()
        listener.close()


def test_a_server_that_never_ends_its_answer_is_given_up_in_time() -> None:
    with dripping_server() as url:
        began = time.monotonic()
        delivery = send(to(url, tries=1, timeout_s=0.4))
        assert time.monotonic() - began < 60
    assert delivery.warning == "webhook to 127.0.0.1 was given up after 0.4 s"


@contextmanager
def patient_server(may_answer: Callable[[], bool]) -> Iterator[str]:
    """Answers its one request with 200, but not before it may."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while not may_answer() and not ended.wait(0.01):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            connection.recv(1 << 16)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ended.set()
        thread.join()
        listener.close()


def test_webhooks_do_not_wait_for_each_other() -> None:
    with receiver(200) as got, patient_server(lambda: bool(got.requests)) as slow:
        both = [to(slow, tries=1, timeout_s=60), to(got.url, tries=1, timeout_s=60)]
        deliveries = notify(both, "finished", PAYLOAD, Path())
    assert [delivery.ok for delivery in deliveries] == [True, True]


def test_a_begun_delivery_holds_nobody_up_and_is_asked_for_later() -> None:
    begun = threading.Event()
    with patient_server(begun.is_set) as slow:
        sending = begin([to(slow, tries=1, timeout_s=60)], "finished", PAYLOAD, Path())
        begun.set()
        assert [delivery.ok for delivery in sending.results()] == [True]
        assert sending.results() == sending.results()


def test_the_longest_time_is_all_tries_and_pauses() -> None:
    # 4 tries of 5 s; pauses of 0.5, 1 and 2 s between them.
    assert longest_s(Notification("http://x", tries=4, timeout_s=5.0)) == 23.5
    # From the fifth pause on (0.5, 1, 2, 4, then 8 and 8) they grow no more.
    assert longest_s(Notification("http://x", tries=7, timeout_s=1.0)) == 7 + 7.5 + 16


def test_importing_notifications_does_not_import_requests() -> None:
    code = "import sys, opsctl.notify; sys.exit('requests' in sys.modules)"
    root = Path(__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
