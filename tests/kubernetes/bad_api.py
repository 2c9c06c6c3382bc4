"""A way to the API server that can break: it cuts watches, and answers some requests itself with
429 or 500, as a server under load does. And it sees which requests the server does not allow."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import select
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.cluster.kubernetes import Cluster

BLOCK_BYTES = 65536
SEND_MAX_S = 30.0


@dataclass
class Faults:
    """What goes wrong on the way."""

    seed: int
    refused_share: float = 0.0
    """Of the requests that are no watch; half of them get 429, half 500."""
    watch_s: float = 0.0
    """Watches are cut after that long; 0: never."""
    refused: int = 0
    cut: int = 0
    asked: int = 0
    """How many requests came this way."""
    forbidden: list[str] = field(default_factory=list)
    """First lines of requests that the server itself answered with 403."""
    chance: random.Random = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def answer(self) -> bytes | None:
        """What a request gets instead of an answer of the server; None when it goes on."""
        with self.lock:
            self.asked += 1
            if self.chance.random() >= self.refused_share:
                return None
            self.refused += 1
            code = self.chance.choice((429, 500))
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                  "message": "the proxy of the tests says no", "metadata": {}}  # fmt: skip
        body = json.dumps(status).encode()
        head = (
            f"HTTP/1.1 {code} No\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


class BadApi:
    """A server before the API server; one request a connection. It has a certificate, as clients of
    Kubernetes send no token without TLS."""

    def __init__(self, cluster: Cluster, faults: Faults, folder: Path) -> None:
        self.faults = faults
        self._own, self._identity = certificate(folder)
        known = yaml.safe_load(Path(cluster.variables["KUBECONFIG"]).read_text())
        self._known = known
        server = known["clusters"][0]["cluster"]
        self._far = urlsplit(server["server"])
        self._context = ssl.create_default_context(cadata=_authority(server))
        self._token = known["users"][0]["user"]["token"]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def kubeconfig(self, file: Path) -> Path:
        """A kubeconfig that goes this way."""
        port = self._listener.getsockname()[1]
        way = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority-data": base64.b64encode(self._own).decode(),
        }
        cluster = {"name": "bad", "cluster": way}
        context = {"name": "bad", "context": {"cluster": "bad", "user": "bad"}}
        made = {
            "apiVersion": "v1", "kind": "Config", "current-context": "bad",
            "clusters": [cluster], "contexts": [context],
            "users": [{"name": "bad", "user": {"token": self._token}}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(made))
        return file

    def serve(self) -> None:
        """Serve until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(near,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _answer(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError), self._identity.wrap_socket(near, True) as secured:
            self._serve(secured)

    def _serve(self, near: ssl.SSLSocket) -> None:
        with near:
            head = _head(near)
            watching = b"watch=true" in head.split(b"\r\n", 1)[0]
            refused = None if watching else self.faults.answer()
            if refused:
                _read_body(near, head)
                near.sendall(refused)
                return
            plain = socket.create_connection((self._far.hostname or "", self._far.port or 443), 10)
            with self._context.wrap_socket(plain, server_hostname=self._far.hostname) as far:
                far.sendall(_once(head))
                limit_s = self.faults.watch_s if watching and self.faults.watch_s else None
                if not _copy(near, far, limit_s, lambda begins: self._note(head, begins)):
                    self.faults.cut += 1

    def _note(self, head: bytes, answer: bytes) -> None:
        """Remember a request whose answer begins like one that is not allowed."""
        if answer.split(b" ", 2)[1:2] == [b"403"]:
            self.faults.forbidden.append(head.split(b"\r\n", 1)[0].decode())


def _head(near: ssl.SSLSocket) -> bytes:
    """The head of a request, and what of its body came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = near.recv(BLOCK_BYTES)
        if not block:
            raise OSError("it hung up")
        data += block
    return data


def _read_body(near: ssl.SSLSocket, head: bytes) -> None:
    """Read a request to its end: who is not heard out meets a broken connection, no answer."""
    lines, _, body = head.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", lines, re.IGNORECASE)
    left = int(length[1]) - len(body) if length else 0
    while left > 0:
        left -= len(near.recv(BLOCK_BYTES)) or left


def _once(head: bytes) -> bytes:
    """The same request as the only one of its connection, unless it is to become another's."""
    first, _, rest = head.partition(b"\r\n")
    lines, _, body = rest.partition(b"\r\n\r\n")
    if b"upgrade:" not in lines.lower():
        kept = [x for x in lines.split(b"\r\n") if not x.lower().startswith(b"connection:")]
        lines = b"\r\n".join([*kept, b"Connection: close"])
    return first + b"\r\n" + lines + b"\r\n\r\n" + body


def certificate(folder: Path) -> tuple[bytes, ssl.SSLContext]:
    """A certificate of 127.0.0.1, and what serves with it."""
    made, key = folder / "way.crt", folder / "way.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made.read_bytes(), context


def _copy(
    near: ssl.SSLSocket, far: ssl.SSLSocket, limit_s: float | None, note: Callable[[bytes], None]
) -> bool:
    """Copy both ways until the server ends it; False when it was cut. `note` gets the answer's
    first block."""
    cut, answered = threading.Event(), False

    def end() -> None:
        cut.set()
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, end) if limit_s else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        while not cut.is_set():
            ready = [one for one in (near, far) if one.pending()]
            ready = ready or select.select([near, far], [], [])[0]
            for one, other in ((far, near), (near, far)):
                block = _read(one) if one in ready else None
                if block is None:
                    continue
                if not block:
                    return not cut.is_set()
                if one is far and not answered:
                    note(block)
                    answered = True
                other.sendall(block)
    except OSError:
        pass
    finally:
        if timer:
            timer.cancel()
    return not cut.is_set()


def _read(one: ssl.SSLSocket) -> bytes | None:
    """What came; None when that was no data, as a server's tickets are none."""
    one.settimeout(0.0)
    try:
        return one.recv(BLOCK_BYTES)
    except ssl.SSLWantReadError:
        return None
    finally:
        one.settimeout(SEND_MAX_S)


def _authority(server: dict[str, str]) -> str:
    """The certificate that the API server is trusted by."""
    data = server.get("certificate-authority-data")
    if data:
        return base64.b64decode(data).decode()
    return Path(server["certificate-authority"]).read_text()


@contextmanager
def bad_api(cluster: Cluster, faults: Faults) -> Iterator[BadApi]:
    """Such a way, for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        made = BadApi(cluster, faults, Path(folder))
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.close()
            thread.join()
