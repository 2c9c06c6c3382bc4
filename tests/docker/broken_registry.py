"""A registry whose one image can't be had, each in its own way."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading


class BrokenRegistry:
    """A registry (distribution specification v2) whose one image can't be had."""

    config = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
    config_digest = "sha256:" + hashlib.sha256(config).hexdigest()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(config), "digest": config_digest,
            },
            "layers": [],
        }
    ).encode()  # fmt: skip
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()

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
        if "/manifests/" in request.path:
            if self.fault == "hangs":
                self.over.wait()
            status, body = (500, b"{}") if self.fault == "500" else (200, self.manifest)
            kind = "application/vnd.docker.distribution.manifest.v2+json"
        elif "/blobs/" in request.path:
            body = self.config[:-5]  # what a broken disk or proxy gives: less than was promised
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
