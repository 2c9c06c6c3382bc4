"""The stand-in service and the watching client do what other tests rely on."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.targets.supervisor import probe
from tests.apps import processes, project
from tests.apps.processes import (
    Running,
    cpu_s,
    end,
    get,
    least_cpu_s,
    post,
    start_client,
    start_light,
    text_of,
    wait_until,
)
from tests.apps.project import PREDICT, Candidate, LightProject, Options

Start = Callable[..., tuple[LightProject, Running, tuple[int, int]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a light service with a fault; it ends with the test."""
    running: list[Running] = []

    def start(fault: dict[str, Any] | None = None, options: Options | None = None) -> Any:
        made = project.write(tmp_path / "project", options)
        made.change(Candidate("test", fault=fault or {}), 1)
        ports = project.free_port(), project.free_port()
        running.append(start_light(made, ports))
        return made, running[-1], ports

    yield start
    for one in running:
        end(one.process)


def answered(ports: tuple[int, int], count: int) -> None:
    """Wait until the service has had so many requests."""

    def has_had() -> bool:
        line = text_of(ports[1], "/metrics").split("\n")[1]
        return int(line.removeprefix("inference_requests_total ")) >= count

    wait_until(has_had, f"it had {count} requests")


def ready(ports: tuple[int, int]) -> None:
    wait_until(lambda: get(ports[1], "/health/ready") == 200, "the service was ready")


def test_light_is_ready_in_little_more_than_python_takes_to_start(start: Start) -> None:
    _, running, ports = start()
    ready(ports)
    # 0.3 s of work at most, told in units of what each machine takes 20 ms or longer for.
    assert cpu_s(running.process.pid) < 15 * least_cpu_s(sys.executable, "-c", "pass")


def test_light_computes_the_dot_product(start: Start) -> None:
    _, _, ports = start()
    ready(ports)
    assert post(ports[0], PREDICT, {"instances": [[1, 2, 3, 4], [0, 0, 0, 0]]}) == (
        200,
        {"predictions": [[5.625], [0.125]]},
    )


def test_light_refuses_an_instance_of_the_wrong_length(start: Start) -> None:
    _, _, ports = start()
    ready(ports)
    status, answer = post(ports[0], PREDICT, {"instances": [[1, 2]]})
    assert (status, list(answer)) == (400, ["error"])


def test_light_finishes_what_is_in_flight_when_told_to_stop(start: Start) -> None:
    _, running, ports = start(options=Options(work_ms=500))
    ready(ports)
    answers: list[Any] = []
    asker = threading.Thread(
        target=lambda: answers.append(post(ports[0], PREDICT, {"instances": [[0, 0, 0, 0]]}))
    )
    asker.start()
    wait_until(lambda: "inference_requests_total 1\n" in text_of(ports[1], "/metrics"), "it asked")
    code = end(running.process, signal.SIGTERM)
    asker.join(60)
    assert (answers, code) == ([(200, {"predictions": [[0.125]]})], 0)


def test_light_answers_pipelined_requests_in_order(start: Start) -> None:
    _, _, ports = start()
    ready(ports)
    wires = b""
    for value in (8, 16):
        body = b'{"instances": [[%d, 0, 0, 0]]}' % value
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        wires += head.encode() + body
    with socket.create_connection(("127.0.0.1", ports[0])) as wire:
        wire.sendall(wires)
        wire.settimeout(60)
        got = b""
        while got.count(b"predictions") < 2:
            got += wire.recv(65536)
    assert got.index(b"[[4.125]]") < got.index(b"[[8.125]]")


@pytest.mark.parametrize(
    ("fault", "code"), [({"exit_at_start": 3}, 3), ({"model_missing": True}, 2)]
)
def test_a_fault_at_start_ends_the_process(start: Start, fault: dict[str, Any], code: int) -> None:
    _, running, _ = start(fault)
    assert running.process.wait(60) == code


def test_a_taken_port_ends_the_process(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        _, running, _ = start({"fixed_port": taken.getsockname()[1]})
        assert running.process.wait(60) == 3
    assert "cannot listen" in running.log.read_text()


def test_a_hanging_start_answers_nothing(start: Start) -> None:
    _, running, ports = start({"hang_at_start": True})
    time.sleep(0.5)
    assert (running.process.poll(), get(ports[1], "/health/ready")) == (None, 0)


def test_a_bad_health_is_answered_on_the_health_port_only(start: Start) -> None:
    _, _, ports = start({"health_status": 500})
    wait_until(lambda: get(ports[1], "/health/ready") == 500, "health was 500")
    assert get(ports[0], "/v1/models/light") == 200


def test_a_flapping_health_shows_both_faces(start: Start) -> None:
    _, _, ports = start({"health_flaps": 2})
    ready(ports)
    seen = [asyncio.run(probe.get("127.0.0.1", ports[1], "/health/ready", 60)) for _ in range(7)]
    assert [one.status for one in seen] == [503, 200, 200, 503, 200, 200, 503]
    # The load balancer's own checks are no part of it.
    assert {get(ports[1], "/health/ready") for _ in range(3)} == {200}


def test_a_release_that_dies_is_healthy_before(start: Start) -> None:
    _, running, ports = start({"dies_after_s": 1.0})
    ready(ports)
    assert running.process.wait(60) == 1


def test_wrong_values_and_shapes_are_wrong_by_what_was_asked(start: Start) -> None:
    _, _, ports = start({"value_error": 0.001, "wrong_shape": True})
    ready(ports)
    status, answer = post(ports[0], PREDICT, {"instances": [[0, 0, 0, 0]]})
    assert (status, answer) == (200, {"predictions": [0.125 + 0.001]})


def test_a_leak_grows_the_process(start: Start) -> None:
    _, running, ports = start({"leak_mb_per_s": 100})
    ready(ports)
    status = Path(f"/proc/{running.process.pid}/status")

    def rss_mb() -> float:
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    wait_until(lambda: rss_mb() > 100, "it held 100 MB")
    assert rss_mb() > 100


def test_a_release_may_ignore_sigterm(start: Start) -> None:
    _, running, ports = start({"ignores_sigterm": True})
    ready(ports)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert (running.process.poll(), get(ports[1], "/health/ready")) == (None, 200)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Callable[[LightProject, int], None]]:
    """HAProxy before one service, with the header that tells the release."""
    running: list[Running] = []

    def begin(made: LightProject, port: int) -> None:
        settings = tmp_path / "haproxy.cfg"
        settings.write_text(
            "defaults\n mode http\n timeout connect 1s\n timeout client 9s\n timeout server 9s\n"
            f"listen front\n bind 127.0.0.1:{made.port}\n"
            " http-response set-header X-Opsctl-Release r1\n"
            f" server r1 127.0.0.1:{port}\n"
        )
        argv = ["haproxy", "-db", "-f", str(settings)]
        running.append(processes.start(argv, tmp_path, tmp_path / "haproxy.log"))
        wait_until(lambda: get(made.port, "/v1/models/light") == 200, "HAProxy answered")

    yield begin
    for one in running:
        end(one.process)


def test_the_client_finds_nothing_wrong_with_a_good_service(
    start: Start, front: Callable[[LightProject, int], None], tmp_path: Path
) -> None:
    made, _, ports = start()
    ready(ports)
    front(made, ports[0])
    with start_client(made, tmp_path, rate=200) as client:
        answered(ports, 200)
        result = client.stop()
    assert (result["failed"], result["failures"], list(result["releases"])) == (0, [], ["r1"])
    assert result["answered"] == result["sent"] > 0


def test_the_client_sees_every_wrong_value(
    start: Start, front: Callable[[LightProject, int], None], tmp_path: Path
) -> None:
    made, _, ports = start({"value_error": 1e-3})
    ready(ports)
    front(made, ports[0])
    with start_client(made, tmp_path, rate=100) as client:
        answered(ports, 50)
        result = client.stop()
    assert result["failed"] == result["sent"] > 0
    assert {failure["kind"] for failure in result["failures"]} == {"value"}


def test_the_client_sees_a_service_die(
    start: Start, front: Callable[[LightProject, int], None], tmp_path: Path
) -> None:
    made, running, ports = start()
    ready(ports)
    front(made, ports[0])
    with start_client(made, tmp_path, rate=100) as client:
        answered(ports, 20)
        killed = time.time()
        end(running.process)
        time.sleep(0.5)
        result = client.stop()
    assert result["failed"] > 0
    assert result["releases"]["r1"]["first_sent"] < killed
    assert all(failure["sent"] > killed - 0.1 for failure in result["failures"])
