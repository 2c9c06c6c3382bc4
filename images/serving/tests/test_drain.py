"""A stop under load: what clients and probes see, and how the process ends."""

from __future__ import annotations

import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import pytest
import requests


def keep_alive(server) -> http.client.HTTPConnection:
    parts = urlsplit(server.rest)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)


def ask(connection, body) -> tuple[int, str | None, dict]:
    connection.request("POST", "/v1/models/anomaly:predict", json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.headers["connection"], json.loads(answer.read())


@pytest.fixture(scope="module")
def rounds_per_second(start_server, toys) -> int:
    """How many rounds of the busy model this machine does in a second."""
    server = start_server(toys / "busy").wait_ready()
    server.predict({"instances": [10]})
    started_s = time.monotonic()
    server.predict({"instances": [200]})
    return int(200 / (time.monotonic() - started_s))


class Background:
    """One predict request on a thread."""

    def __init__(self, server, rounds: int) -> None:
        self.answer: requests.Response | None = None
        self.error: Exception | None = None
        self._server, self._rounds = server, rounds
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._server.predict({"instances": [self._rounds]})
        except requests.RequestException as error:
            self.error = error

    def result(self) -> requests.Response:
        self._thread.join(120)
        assert self.error is None, self.error
        assert self.answer is not None
        return self.answer

    def join(self) -> None:
        self._thread.join(120)


def test_sigterm_turns_readiness_false_at_once_and_serves_on_for_the_lame_duck_time(
    start_server, toys, eventually
):
    server = start_server(toys / "half_plus_two", "--lame-duck-s", "3").wait_ready()
    connection = keep_alive(server)
    assert ask(connection, {"instances": [1]}) == (200, None, {"predictions": [2.5]})
    server.terminate()
    eventually(lambda: server.get("/health/ready").status_code == 503)
    assert server.get("/health/ready").json()["status"] == "draining"
    assert server.get("/health").status_code == 503
    assert server.get("/health/live").status_code == 200
    status, header, answer = ask(connection, {"instances": [1]})
    assert (status, header, answer) == (200, "close", {"predictions": [2.5]})
    assert server.wait() == 0
    assert any("drained" in line for line in server.log)


def test_requests_under_way_finish_after_the_ports_are_closed(
    start_server, toys, rounds_per_second, eventually
):
    server = start_server(toys / "busy", "--lame-duck-s", "0").wait_ready()
    slow = Background(server, rounds_per_second * 2)
    eventually(lambda: server.get("/health").json()["in_flight"] == 1)
    server.terminate()
    eventually(lambda: refuses(server))
    answer = slow.result()
    assert answer.status_code == 200
    assert answer.json()["predictions"] == [float(rounds_per_second * 2)]
    assert server.wait() == 0


def refuses(server) -> bool:
    try:
        server.predict({"instances": [1]})
    except requests.ConnectionError:
        return True
    return False


def test_a_second_signal_ends_the_drain_and_the_exit_code_says_so(
    start_server, toys, rounds_per_second, eventually
):
    server = start_server(toys / "busy", "--lame-duck-s", "30").wait_ready()
    slow = Background(server, rounds_per_second * 20)
    eventually(lambda: server.get("/health").json()["in_flight"] == 1)
    server.terminate()
    eventually(lambda: server.get("/health").json()["status"] == "draining")
    started_s = time.monotonic()
    server.terminate()
    assert server.wait() == 1
    assert time.monotonic() - started_s < 25  # without it, 30 s and what is under way
    assert "second signal" in server.log[-1]
    assert "1 requests cut off" in server.log[-1]
    slow.join()


def test_the_drain_time_limit_ends_it_too(start_server, toys, rounds_per_second, eventually):
    options = ("--lame-duck-s", "0", "--drain-timeout-s", "0.5")
    server = start_server(toys / "busy", *options).wait_ready()
    slow = Background(server, rounds_per_second * 20)
    eventually(lambda: server.get("/health").json()["in_flight"] == 1)
    server.terminate()
    assert server.wait() == 1
    assert "0.5 s are over" in server.log[-1]
    slow.join()


def test_no_request_fails_while_a_client_keeps_asking_through_a_stop(start_server, toys):
    server = start_server(toys / "half_plus_two", "--lame-duck-s", "1").wait_ready()
    threading.Timer(0.3, server.terminate).start()
    connection = keep_alive(server)
    answered, end = 0, time.monotonic() + 1.0
    while time.monotonic() < end:
        status, header, _ = ask(connection, {"instances": [1]})
        assert status == 200
        answered += 1
        if header == "close":
            connection.close()
    connection.close()
    assert answered > 10
    assert server.wait() == 0


def test_a_stalled_worker_makes_the_service_not_ready_and_it_recovers(
    start_server, toys, rounds_per_second, eventually
):
    server = start_server(toys / "busy", "--stall-timeout-s", "0.3").wait_ready()
    slow = Background(server, rounds_per_second * 2)
    eventually(lambda: server.get("/health/ready").status_code == 503)
    assert server.get("/health/live").json()["status"] == "stalled"
    assert slow.result().status_code == 200
    assert server.get("/health/ready").status_code == 200


def test_a_request_past_its_time_limit_gets_504(start_server, toys, rounds_per_second):
    server = start_server(toys / "busy", "--request-timeout-s", "0.2").wait_ready()
    answer = server.predict({"instances": [rounds_per_second]})
    assert answer.status_code == 504
    assert answer.json() == {"error": "no answer within 0.2 s"}
    assert server.metric("inference_errors_total", kind="timeout") == 1
    assert server.metric("inference_latency_seconds_count") == 1


def test_an_overloaded_service_answers_503_with_retry_after(
    start_server, toys, rounds_per_second, eventually
):
    options = ("--workers", "1", "--max-queue", "2", "--max-batch", "1")
    server = start_server(toys / "busy", *options).wait_ready()
    first = Background(server, rounds_per_second * 4)
    eventually(lambda: server.get("/health").json()["in_flight"] == 1)
    waiting = [Background(server, 1) for _ in range(2)]
    eventually(lambda: server.metric("inference_queue_instances") == 2)
    refused = server.predict({"instances": [1]})
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json() == {"error": "the queue is full: 2 instances wait and 2 may"}
    assert [one.result().status_code for one in (first, *waiting)] == [200, 200, 200]
    assert server.metric("inference_errors_total", kind="rejected") == 1


def test_one_bad_value_does_not_fail_its_neighbours(start_server, toys):
    # Time to fill a batch, so that the three are surely in one.
    server = start_server(toys / "table", "--batch-timeout-ms", "200").wait_ready()
    answers = {}

    def look_up(index: int) -> None:
        answers[index] = server.predict({"instances": [index]})

    threads = [threading.Thread(target=look_up, args=(index,)) for index in (0, 7, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0].json() == {"predictions": [10.0]}
    assert answers[3].json() == {"predictions": [13.0]}
    assert answers[7].status_code == 400
    assert "7 is not in [0, 4)" in answers[7].json()["error"]
    assert server.metric("inference_errors_total", kind="client") == 1
