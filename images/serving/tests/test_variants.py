"""The variants of the sample model are really slower and really wrong."""

from __future__ import annotations

import json
import statistics
import time

import pytest
import requests

pytestmark = pytest.mark.long
ROUNDS = 150


@pytest.fixture(scope="module")
def variants(tmp_path_factory, train_model):
    folder = tmp_path_factory.mktemp("variants")
    return {
        name: train_model(folder / name, "--variant", name) for name in ("normal", "slow", "wrong")
    }


def test_slow_has_the_same_answers_and_more_latency_at_every_batch_size(variants, start_server):
    servers = {name: start_server(variants[name]).wait_ready() for name in ("normal", "slow")}
    lines = (variants["normal"] / "requests.jsonl").read_text().splitlines()
    sessions = {name: requests.Session() for name in servers}
    for size in (1, 4, 16, 32):
        body = '{"instances": [' + ",".join(lines[:size]) + "]}"
        times: dict[str, list[float]] = {name: [] for name in servers}
        answers = {}
        for _ in range(ROUNDS):
            for name, server in servers.items():
                started_s = time.perf_counter()
                answer = sessions[name].post(server.url(), data=body, timeout=10)
                times[name].append(time.perf_counter() - started_s)
                answers[name] = answer.json()["predictions"]
        for right, slow in zip(answers["normal"], answers["slow"], strict=True):
            assert slow["score"] == pytest.approx(right["score"], abs=1e-5)
        # Of the server's own time; the client's share, about 1 ms, is in both.
        ratio = statistics.median(times["slow"]) / statistics.median(times["normal"])
        assert 1.1 < ratio < 1.9, (size, ratio)


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
    assert max(off) > 0.05
    assert load_json(variants["wrong"] / "model.json")["metrics"]["auc"] < 0.9
