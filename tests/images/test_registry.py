"""A registry that is well, down, slow, broken, or gives something else than it was asked for."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from opsctl.errors import ConfigError
from opsctl.images.reference import Reference, parse
from opsctl.images.registry import Registry, RegistryFailed
from tests.images.layouts import archive, sha256

LAYER = archive({"a": random.Random(1).randbytes(5000)}, compressed=True)
CONFIG = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"digest": sha256(CONFIG), "size": len(CONFIG)},
        "layers": [{"digest": sha256(LAYER), "size": len(LAYER)}],
    }
).encode()


class Served(ThreadingHTTPServer):
    """A registry with one image; `fault` says what is wrong with it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = ""
        self.asked: list[str] = []
        self.blobs = {sha256(LAYER): LAYER, sha256(CONFIG): CONFIG}

    @property
    def reference(self) -> Reference:
        return parse(f"127.0.0.1:{self.server_port}/team/web:1")


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.fault == "500" or (
            self.server.fault == "500 once" and len(self.server.asked) == 1
        ):
            self._answer(500, b"")
        elif self.server.fault == "slow":
            time.sleep(3)
        elif self._wants_token():
            realm = f"http://127.0.0.1:{self.server.server_port}/token"
            self._answer(401, b"", challenge=f'Bearer realm="{realm}",service="s",scope="pull"')
        else:
            self._serve()

    def _wants_token(self) -> bool:
        asks = self.server.fault == "token" and not self.path.startswith("/token")
        return asks and "Authorization" not in self.headers

    do_HEAD = do_GET  # noqa: N815  # the name that the base class asks for

    def _serve(self) -> None:
        name = self.path.rsplit("/", 1)[-1].split("?")[0]
        if self.path == "/v2/":
            self._answer(200, b"{}")
        elif name == "token":
            self._answer(200, b'{"token": "abc"}')
        elif "/manifests/" in self.path:
            known = name in ("1", sha256(MANIFEST))
            self._answer(200 if known else 404, MANIFEST if known else b"{}")
        elif name in self.server.blobs:
            data = self.server.blobs[name]
            self._answer(200, data[: len(data) // 2] if self.server.fault == "truncated" else data)
        else:
            self._answer(404, b"{}")

    def _answer(self, status: int, body: bytes, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        length = (
            len(body) * 2 if self.server.fault == "broken off" and len(body) > 1000 else len(body)
        )
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def registry(served: Served) -> Registry:
    return Registry(served.reference, timeout_s=(2.0, 0.5))


def test_a_tag_is_resolved_to_the_digest_of_its_manifest(served: Served) -> None:
    assert registry(served).digest_of("1") == sha256(MANIFEST)
    assert registry(served).digest_of("2") is None


def test_a_whole_image_is_as_long_as_its_parts(served: Served) -> None:
    asked = registry(served)
    assert asked.require_blobs(asked.manifest(sha256(MANIFEST))) == len(LAYER) + len(CONFIG)


def test_an_error_of_a_moment_is_asked_again(served: Served) -> None:
    served.fault = "500 once"
    registry(served).require()
    assert served.asked == ["/v2/", "/v2/"]


def test_a_token_is_fetched_where_the_registry_wants_one(served: Served) -> None:
    served.fault = "token"
    assert registry(served).digest_of("1") == sha256(MANIFEST)


@pytest.mark.parametrize(
    ("fault", "why"),
    [("500", "it answered 500"), ("slow", "no answer within the time limit")],
)
def test_a_registry_that_is_not_well_is_named_with_the_reason(
    served: Served, fault: str, why: str
) -> None:
    served.fault = fault
    with pytest.raises(RegistryFailed) as caught:
        registry(served).require()
    assert (caught.value.exit_code, caught.value.retryable) == (5, True)
    assert f"127.0.0.1:{served.server_port}" in caught.value.what
    assert caught.value.why == why


def test_a_registry_that_is_down_is_no_missing_image() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        reference = parse(f"127.0.0.1:{taken.getsockname()[1]}/team/web:1")
        with pytest.raises(RegistryFailed) as caught:
            Registry(reference, timeout_s=(2.0, 0.5)).digest_of("1")
    assert caught.value.why == "no connection"


@pytest.mark.parametrize("fault", ["truncated", "broken off"])
def test_a_truncated_blob_is_noticed_and_leaves_no_file(
    served: Served, tmp_path: Path, fault: str
) -> None:
    served.fault = fault
    with pytest.raises(RegistryFailed, match=r"not what its digest says|broke off"):
        registry(served).save_blob(sha256(LAYER), tmp_path / "layer")
    assert list(tmp_path.iterdir()) == []


def test_a_blob_that_is_shorter_than_the_manifest_says_is_noticed_after_a_push(
    served: Served,
) -> None:
    asked = registry(served)
    manifest = asked.manifest(sha256(MANIFEST))
    served.fault = "truncated"
    with pytest.raises(RegistryFailed, match="is not whole"):
        asked.require_blobs(manifest)


def test_an_altered_blob_is_noticed(served: Served, tmp_path: Path) -> None:
    served.blobs[sha256(LAYER)] = LAYER[:-1] + b"x"
    with pytest.raises(RegistryFailed, match="not what its digest says"):
        registry(served).save_blob(sha256(LAYER), tmp_path / "layer")


@pytest.mark.parametrize(
    ("text", "reference", "url", "path"),
    [
        ("debian", Reference("", "debian"), "https://registry-1.docker.io", "library/debian"),
        ("team/web:1", Reference("", "team/web", "1"), "https://registry-1.docker.io", "team/web"),
        ("localhost/web", Reference("localhost", "web"), "http://localhost", "web"),
        ("127.0.0.1:5000/a/b:c", Reference("127.0.0.1:5000", "a/b", "c"), "http://127.0.0.1:5000",
         "a/b"),
        (f"r.example:443/a@sha256:{'0' * 64}",
         Reference("r.example:443", "a", "", f"sha256:{'0' * 64}"), "https://r.example:443", "a"),
    ],
)  # fmt: skip
def test_names_of_images_are_read_as_engines_read_them(
    text: str, reference: Reference, url: str, path: str
) -> None:
    assert parse(text) == reference
    assert (str(parse(text)), parse(text).url, parse(text).path) == (text, url, path)


@pytest.mark.parametrize("text", ["Web", "a//b", "a@sha256:12", "a:", "a@", "r.example/", "a b"])
def test_what_is_no_name_of_an_image_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no name of an image"):
        parse(text)
