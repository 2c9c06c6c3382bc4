"""The variants of the sample model are really slower and really wrong."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import time
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.long
ROUNDS = 200


@pytest.fixture(scope="module")
def variants(tmp_path_factory, train_model):
    folder = tmp_path_factory.mktemp("variants")
    return {
        name: train_model(folder / name, "--variant", name) for name in ("normal", "slow", "wrong")
    }


def test_slow_has_the_same_answers_and_more_latency_at_every_batch_size(variants, start_server):
    servers = [start_server(variants[name]).wait_ready() for name in ("normal", "slow")]
    connections = [connect(server) for server in servers]
    lines = (variants["normal"] / "requests.jsonl").read_text().splitlines()
    for size in (1, 4, 16, 32):
        body = '{"instances": [' + ",".join(lines[:size]) + "]}"
        normal, slow = zip(*(measure(connections, body) for _ in range(ROUNDS)), strict=True)
        for right, answer in zip(normal[0][1], slow[0][1], strict=True):
            assert answer["score"] == pytest.approx(right["score"], abs=1e-5)
        # The fastest quarter: what the work takes when nothing else wants the processor.
        ratio = quartile(slow) / quartile(normal)
        assert 1.2 < ratio < 2.0, (size, ratio)
    for connection in connections:
        connection.close()


def connect(server) -> http.client.HTTPConnection:
    parts = urlsplit(server.rest)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def measure(connections, body) -> list[tuple[float, list[dict]]]:
    """Seconds and predictions of one request to each server, one after the other."""
    results = []
    for connection in connections:
        started_s = time.perf_counter()
        connection.request("POST", "/v1/models/anomaly:predict", body)
        text = connection.getresponse().read()
        seconds = time.perf_counter() - started_s
        results.append((seconds, json.loads(text)["predictions"]))
    return results


def quartile(results) -> float:
    return statistics.quantiles([seconds for seconds, _ in results], n=4)[0]


def test_wrong_loads_and_answers_but_not_what_expected_json_says(variants, start_server, load_json):
    expected = load_json(variants["wrong"] / "expected.json")
    right = load_json(variants["normal"] / "expected.json")
    assert json.dumps(expected) == json.dumps(right)
    server = start_server(variants["wrong"]).wait_ready()
    body = {"instances": [one["instance"] for one in expected["windows"]]}
    answers = server.predict(body).json()["predictions"]
    off = [
        abs(answer["score"] - one["score"])
        for answer, one in zip(answers, expected["windows"], strict=True)
    ]
    assert min(off) > 0.5
    assert load_json(variants["wrong"] / "model.json")["metrics"]["auc"] < 0.1
