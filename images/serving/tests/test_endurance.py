"""What only shows after many requests: memory and broken clients."""

from __future__ import annotations

import base64
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

pytestmark = pytest.mark.long
HEAD = b"POST /v1/models/anomaly:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"


def resident_mb(server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_memory_does_not_grow_with_strings_numbers_or_failures(start_server, toys):
    server = start_server(toys / "tensors").wait_ready()
    text = base64.b64encode(os.urandom(100_000)).decode()
    row = {"tag": {"b64": text}, "signal": [1] * 5, "sensor": [[1, 2], [3, 4]], "flag": True}
    wrong = {**row, "signal": [1] * 4}
    session = requests.Session()

    def send(times: int) -> None:
        for _ in range(times):
            assert session.post(server.url(), json={"instances": [row] * 2}).status_code == 200
            assert session.post(server.url(), json={"instances": [wrong]}).status_code == 400

    send(50)
    before_mb = resident_mb(server)
    send(200)  # 400 strings of 100 KB each way: 80 MB if none were freed
    assert resident_mb(server) - before_mb < 30


def test_clients_that_break_off_leave_nothing_behind(start_server, toys, eventually):
    server = start_server(toys / "half_plus_two", "--workers", "1").wait_ready()
    parts = urlsplit(server.rest)
    for body in (b"", b'{"instances": [', b'{"instances": [1]}'):
        for _ in range(50):
            with socket.create_connection((parts.hostname, parts.port)) as client:
                client.sendall(HEAD + body)
    eventually(lambda: server.get("/health").json()["in_flight"] == 0)
    assert server.predict({"instances": [1]}).json() == {"predictions": [2.5]}
    server.terminate()
    assert server.wait() == 0
