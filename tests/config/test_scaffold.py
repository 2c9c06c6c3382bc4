"""`opsctl init` writes a service that works: the real process is asked."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opsctl import shell
from opsctl.checks.compare import mismatches
from opsctl.config.load import load
from opsctl.config.placeholders import fill
from opsctl.config.settings import Service
from opsctl.errors import ConfigError
from opsctl.scaffold import FILES, name_for, write_project
from tests.apps.processes import cpu_s, least_cpu_s, wait_until

START_MAX_S = 60.0
SIGMOID_OF_HALF = 1 / (1 + math.exp(-0.5))
"""0.5·1 − 0.25·2 + 0.125·4 + 1·0.5 − 0.5 = 0.5 for the known window."""

KNOWN_WINDOW = [1.0, 2.0, 4.0, 0.5]


@dataclass
class Running:
    """The written service as a process of its own."""

    root: Path
    service: Service
    process: subprocess.Popen[bytes]
    port: int
    health_port: int

    def ask(self, method: str, path: str, body: Any = None, *, health: bool = False) -> Any:
        """Status and parsed answer of one request on a connection of its own."""
        with contextlib.closing(self.connect(health=health)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json else text

    def connect(self, *, health: bool = False) -> http.client.HTTPConnection:
        """A connection to one of its ports."""
        port = self.health_port if health else self.port
        return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_until_ready(service: Running, started: float) -> None:
    while time.monotonic() - started < START_MAX_S:
        with contextlib.suppress(OSError):
            if service.ask("GET", service.service.health.path, health=True)[0] == 200:
                return
        time.sleep(0.005)
    raise AssertionError(f"not ready: {(service.root / 'log').read_text()}")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """`demo`, started with the command of its own opsctl.yaml."""
    write_project(tmp_path, "demo")
    service = load(tmp_path / "opsctl.yaml", environment=None, service=None).service
    port, health_port = _free_ports()
    assert service.model is not None
    values = {
        "python": sys.executable,
        "port": str(port),
        "health_port": str(health_port),
        "model": str(tmp_path / service.model.path),
        "release": "r7",
        "replica": "r7-1",
    }
    argv = [fill(argument, values) for argument in service.app.command]
    started = time.monotonic()
    process = shell.spawn(
        argv, cwd=tmp_path / service.app.directory, env=dict(os.environ), log=tmp_path / "log"
    )
    demo = Running(tmp_path, service, process, port, health_port)
    try:
        _wait_until_ready(demo, started)
        yield demo
    finally:
        process.kill()
        process.wait()


def test_the_service_scores_windows_rightly(running: Running) -> None:
    body = {"instances": [KNOWN_WINDOW, [0, 0, 0, 0]]}
    status, answer = running.ask("POST", "/v1/models/demo:predict", body)
    assert status == 200
    assert answer == {
        "predictions": [pytest.approx(SIGMOID_OF_HALF), pytest.approx(1 / (1 + math.exp(0.5)))]
    }


def test_the_service_tells_the_state_of_its_model_as_tensorflow_serving_does(
    running: Running,
) -> None:
    assert running.ask("GET", "/v1/models/demo") == (
        200,
        {
            "model_version_status": [
                {
                    "version": "1",
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        },
    )


def test_its_own_smoke_tests_pass(running: Running) -> None:
    assert len(running.service.smoke) == 3
    for test in running.service.smoke:
        assert test.path is not None
        status, answer = running.ask(test.method, test.path, test.body)
        assert (test.name, status, mismatches(answer, test.json)) == (test.name, test.status, ())


def test_a_model_that_is_slightly_wrong_fails_its_smoke_test(tmp_path: Path) -> None:
    write_project(tmp_path, "demo")
    service = load(tmp_path / "opsctl.yaml", environment=None, service=None).service
    wrong = {"predictions": [SIGMOID_OF_HALF + 1e-3, 0.3775]}
    told = [str(mismatch) for mismatch in mismatches(wrong, service.smoke[1].json)]
    assert len(told) == 1
    assert told[0].startswith("predictions.0: expected 0.6224593 ± 1e-06")


def test_each_request_of_the_benchmark_file_is_answered(running: Running) -> None:
    assert running.service.bench is not None and running.service.bench.requests_file is not None
    lines = (running.root / running.service.bench.requests_file).read_text().splitlines()
    items = [json.loads(line) for line in lines]
    assert len(items) == 64
    status, answer = running.ask("POST", running.service.bench.path, {"instances": items})
    assert (status, len(answer["predictions"])) == (200, 64)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"instances": [[1.0]]}, "1 values; the model takes 4"),
        ({"instances": 3}, "not iterable"),
        ({"inputs": []}, "instances"),
        ({"instances": [[1e308, -1e308, 1e308, 1e308]]}, "too large"),
        ({"instances": [["a", "b", "c", "d"]]}, "multiply"),
    ],
)
def test_wrong_requests_are_refused_and_counted(running: Running, body: Any, why: str) -> None:
    status, answer = running.ask("POST", "/v1/models/demo:predict", body)
    assert status == 400
    assert why in answer["error"]
    metrics = running.ask("GET", "/metrics", health=True)[1].splitlines()
    assert 'inference_errors_total{model="demo",version="r7"} 1' in metrics
    assert 'inference_requests_total{model="demo",version="r7"} 1' in metrics


def test_requests_that_are_no_good_http_leave_the_service_alive(running: Running) -> None:
    for head, status in (
        (b"POST /v1/models/demo:predict HTTP/1.1\r\nHost: x\r\n\r\n", b"411"),
        (b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", b"501"),
    ):
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as raw:
            raw.sendall(head)
            assert raw.recv(100).split()[1] == status
    assert running.ask("GET", "/health/live", health=True) == (200, {"status": "ok"})


def test_a_connection_is_kept_and_tells_the_release(running: Running) -> None:
    with contextlib.closing(running.connect()) as connection:
        releases = []
        for _ in range(3):
            connection.request("GET", "/v1/models/demo")
            answer = connection.getresponse()
            answer.read()
            releases.append((answer.headers["X-Opsctl-Release"], answer.headers["Connection"]))
            assert connection.sock is not None
    assert releases == [("r7", None)] * 3


def test_it_is_ready_in_little_more_than_python_takes_to_start(running: Running) -> None:
    # 0.3 s of work at most, told in units of what each machine takes 20 ms or longer for.
    assert cpu_s(running.process.pid) < 15 * least_cpu_s(sys.executable, "-c", "pass")


def test_sigterm_drains_without_one_failed_request(running: Running) -> None:
    """Keep-alive clients go on all the time; one request is only half sent at the signal."""
    results: list[list[int | str]] = [[] for _ in range(4)]
    told_to_close: list[bool] = []
    half = _half_sent_request(running)
    clients = [
        threading.Thread(target=_ask_until_closed, args=(running, own, told_to_close))
        for own in results
    ]
    for client in clients:
        client.start()
    wait_until(lambda: all(results), "each client had an answer")
    running.process.send_signal(signal.SIGTERM)

    def drains() -> bool:
        answer = running.ask("GET", "/health/ready", health=True)
        return bool(answer == (503, {"status": "draining"}))

    wait_until(drains, "it was draining")
    assert running.ask("GET", "/health/live", health=True) == (200, {"status": "ok"})
    half.sendall(b"0]]}")
    with half:
        assert half.recv(4096).split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    for client in clients:
        client.join(60)
    assert running.process.wait(60) == 0
    assert {status for own in results for status in own} == {200}
    assert told_to_close == [True] * 4


def _half_sent_request(running: Running) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", running.port), timeout=5)
    body = b'{"instances": [[0,0,0,0]]}'
    raw.sendall(
        b"POST /v1/models/demo:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        % len(body)
        + body[:-4]
    )
    return raw


def _ask_until_closed(
    running: Running, results: list[int | str], told_to_close: list[bool]
) -> None:
    """What a keep-alive client does until the service says `Connection: close`."""
    body = json.dumps({"instances": [KNOWN_WINDOW]})
    with contextlib.closing(running.connect()) as connection:
        for _ in range(100_000):
            try:
                connection.request("POST", "/v1/models/demo:predict", body)
                answer = connection.getresponse()
                answer.read()
            except OSError as error:
                results.append(repr(error))
                return
            results.append(answer.status)
            if answer.headers["Connection"] == "close":
                told_to_close.append(True)
                return
            time.sleep(0.002)


def test_a_file_that_is_there_is_never_overwritten_and_nothing_else_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "requests.jsonl").write_text("mine")
    (tmp_path / "opsctl.yaml").symlink_to("nowhere")
    with pytest.raises(ConfigError) as caught:
        write_project(tmp_path, "demo")
    assert caught.value.what == f"{tmp_path} has opsctl.yaml, requests.jsonl already"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opsctl.yaml", "requests.jsonl"]
    assert (tmp_path / "requests.jsonl").read_text() == "mine"


def test_what_was_written_is_told_and_is_all_there(tmp_path: Path) -> None:
    written = write_project(tmp_path / "new" / "place", "demo")
    assert written == [tmp_path / "new" / "place" / file for file in FILES]
    assert all(path.is_file() for path in written)
    assert "SERVICE_NAME" not in "".join(path.read_text() for path in written)


def test_a_folder_that_cannot_be_written_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("a file where a folder is needed")
    with pytest.raises(ConfigError) as caught:
        write_project(tmp_path, "demo")
    assert caught.value.what == f"cannot write {tmp_path}/app"
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [("demo", "demo"), ("My Service_2", "my-service-2"), ("2nd", "nd"), ("...", "service"),
     ("x" * 80, "x" * 63)],
)  # fmt: skip
def test_the_service_is_named_after_its_folder(tmp_path: Path, folder: str, name: str) -> None:
    assert name_for(Path(folder)) == name
    write_project(tmp_path / "p" / folder)
    project = load(tmp_path / "p" / folder / "opsctl.yaml", environment="staging", service=None)
    assert project.service_name == name
    assert project.service.replicas == 1


def test_a_name_that_is_no_dns_label_is_refused_with_one_that_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write_project(tmp_path / "x", "My Demo")
    assert caught.value.next_step == "Add: --name my-demo"
    assert not (tmp_path / "x").exists()
