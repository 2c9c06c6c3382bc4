"""A registry whose one image can't be had, or not soon: each time in its own way."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading

from tests.docker.small_image import parts

SLOW_S = 1.0
"""Before each answer of a registry that is slow."""


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class BrokenRegistry:
    """A registry (distribution specification v2) whose one image can't be had: `500`, `truncated`
    or `hangs`; or `slow`, and then it can."""

    config, layer = parts("amd64", "from a broken registry")
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(config), "digest": _digest(config),
            },
            "layers": [{
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar",
                "size": len(layer), "digest": _digest(layer),
            }],
        }
    ).encode()  # fmt: skip
    digest = _digest(manifest)

    def __init__(self, fault: str) -> None:
        outer = self
        self.fault = fault

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            do_HEAD = do_GET  # noqa: N815  (the library looks for this name)

            def log_message(self, *_: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.over = threading.Event()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        kind = "application/json"
        status, body = 200, b"{}"
        if self.fault == "slow":
            self.over.wait(SLOW_S)
        if "/manifests/" in request.path:
            if self.fault == "hangs":
                self.over.wait()
            status, body = (500, b"{}") if self.fault == "500" else (200, self.manifest)
            kind = "application/vnd.docker.distribution.manifest.v2+json"
        elif "/blobs/" in request.path:
            body = self.layer if request.path.endswith(_digest(self.layer)) else self.config
            if self.fault == "truncated":
                body = body[:-5]  # what a broken disk or proxy gives: less than was promised
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def __enter__(self) -> str:
        self.thread.start()
        return f"127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
