"""Smoke tests against real servers: every replica is asked, every test is told."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from opsctl import shell
from opsctl.checks.smoke import SmokeResult, SmokeTestsFailed, request_of, run_smoke
from opsctl.config.settings import JsonExpectation, SmokeTest
from opsctl.errors import Aborted, PreflightRefused, SmokeFailed
from opsctl.model import Endpoint
from opsctl.release import Launch, Release
from opsctl.targets.target import CommandResult
from tests.checks.fakes import ScriptedTarget, observed
from tests.checks.servers import Reply, http_server, raw_server

PREDICT = "/v1/models/m:predict"
RELEASE = Release(
    name="r2",
    digest="d",
    created=0.0,
    app_digest="a",
    model=None,
    config_digest="c",
    launch=Launch(("x",), sys.executable, "/nowhere", model_path="/models/m"),
)


def scores(value: Any) -> Any:
    """A service that answers every prediction with `value`."""

    def answering(method: str, path: str, body: bytes) -> Reply:
        if path != PREDICT:
            return 404, {}, b"no such path"
        rows = json.loads(body)["instances"]
        return 200, {}, json.dumps({"predictions": [[value]] * len(rows)}).encode()

    return answering


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def target_of(servers: ExitStack, *values: Any) -> ScriptedTarget:
    """A candidate with one replica for each value that it answers."""
    endpoints = [
        servers.enter_context(http_server(scores(value), f"r2-{number}"))
        for number, value in enumerate(values, start=1)
    ]
    return ScriptedTarget([observed()], {"r2": endpoints}, command=real_command)


def real_command(argv: Sequence[str]) -> CommandResult:
    done = shell.run(argv, timeout_s=10)
    return CommandResult(done.exit_code, done.stdout, done.stderr)


def never() -> None:
    """Nobody interrupts."""


def predicts(value: float, tolerance: float = 1e-6) -> SmokeTest:
    return SmokeTest(
        name="predicts",
        method="POST",
        path=PREDICT,
        body={"instances": [[1.0], [2.0]]},
        json=(JsonExpectation("predictions", [[value], [value]], tolerance, (2, 1)),),
        timeout_s=5,
    )


def smoke(
    target: ScriptedTarget, *tests: SmokeTest, root: Path = Path()
) -> tuple[SmokeResult, ...]:
    return run_smoke(target, RELEASE, tests, root, never)


def failure(target: ScriptedTarget, *tests: SmokeTest) -> SmokeTestsFailed:
    with pytest.raises(SmokeTestsFailed) as caught:
        smoke(target, *tests)
    return caught.value


def test_every_replica_is_asked(servers: ExitStack) -> None:
    results = smoke(target_of(servers, 0.5, 0.5), predicts(0.5))
    assert [(r.test, r.replica, r.ok) for r in results] == [
        ("predicts", "r2-1", True),
        ("predicts", "r2-2", True),
    ]
    assert all(0 < result.duration_ms < 5000 for result in results)


def test_a_value_wrong_by_a_thousandth_fails_and_all_results_are_told(servers: ExitStack) -> None:
    error = failure(
        target_of(servers, 0.5, 0.501), predicts(0.5), SmokeTest("missing", path="/", status=404)
    )
    assert error.exit_code == 13
    assert error.what == "1 of 4 smoke tests of r2 failed"
    assert error.why == (
        "'predicts' on r2-2: POST /v1/models/m:predict:"
        " predictions.0.0: expected 0.5 ± 1e-06, got 0.501"
    )
    assert [result.ok for result in error.results] == [True, False, True, True]
    wrong = error.results[1].mismatches
    assert [(m.path, m.expected, m.got, m.tolerance) for m in wrong] == [
        ("predictions.0.0", "0.5", "0.501", 1e-6),
        ("predictions.1.0", "0.5", "0.501", 1e-6),
    ]


def test_the_error_becomes_json_with_all_results(servers: ExitStack) -> None:
    data = json.loads(json.dumps(failure(target_of(servers, 0.5, 0.6), predicts(0.5)).to_dict()))
    assert (data["type"], data["exit_code"]) == ("SmokeFailed", 13)
    assert [(r["replica"], r["ok"]) for r in data["results"]] == [("r2-1", True), ("r2-2", False)]


def test_the_error_is_one_of_the_tree() -> None:
    assert issubclass(SmokeTestsFailed, SmokeFailed)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([0.5, 0.5], "predictions: expected shape [2, 1], got shape [2, 1, 2]"),
        ("0.5", "predictions.0.0: expected number 0.5, got text '0.5'"),
        (float("nan"), "predictions.0.0: expected 0.5 ± 1e-06, got nan"),
        (None, "predictions.0.0: expected number 0.5, got null None"),
    ],
)
def test_wrong_shape_type_and_nan_fail(servers: ExitStack, value: Any, problem: str) -> None:
    (result,) = failure(target_of(servers, value), predicts(0.5)).results
    assert result.problems[0] == f"POST {PREDICT}: {problem}"


def test_a_wrong_status_fails_and_shows_the_answer(servers: ExitStack) -> None:
    (result,) = failure(target_of(servers, 0.5), SmokeTest("there", path="/metadata")).results
    assert result.problems == ("GET /metadata: expected status 200, got 404",)
    assert result.output == "no such path"


def test_an_answer_that_is_no_json_fails(servers: ExitStack) -> None:
    page = servers.enter_context(http_server(lambda *_: (200, {}, b"<html>"), "r2-1"))
    target = ScriptedTarget([observed()], {"r2": [page]})
    (result,) = failure(
        target, SmokeTest("json", path="/", json=(JsonExpectation("x", 1),))
    ).results
    assert result.problems == (
        "GET /: the answer is no JSON (Expecting value: line 1 column 1 (char 0))",
    )


def test_a_replica_that_is_gone_fails(servers: ExitStack) -> None:
    with http_server(scores(1), "r2-1") as gone:
        pass
    (result,) = failure(ScriptedTarget([observed()], {"r2": [gone]}), predicts(1)).results
    assert result.problems == (f"POST {PREDICT}: [Errno 111] Connection refused",)


def test_a_candidate_without_replicas_fails(servers: ExitStack) -> None:
    assert failure(target_of(servers), predicts(1)).why == (
        "'endpoints' on r2: it has no replica to ask"
    )


def test_many_failures_are_counted_in_the_message(servers: ExitStack) -> None:
    error = failure(target_of(servers, 1, 1, 1, 1, 1), predicts(2))
    assert error.what == "5 of 5 smoke tests of r2 failed"
    assert error.why.endswith("; and 2 more")
    assert error.why.count("expected 2") == 3


def test_the_body_may_come_from_a_file(servers: ExitStack, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text('{"instances": [1, 2, 3]}')
    test = SmokeTest(
        "file",
        method="POST",
        path=PREDICT,
        body_file="body.json",
        json=(JsonExpectation("predictions", shape=(3, 1)),),
    )
    (result,) = smoke(target_of(servers, 0.5), test, root=tmp_path)
    assert result.ok


def test_a_missing_body_file_is_refused(servers: ExitStack, tmp_path: Path) -> None:
    test = SmokeTest("file", method="POST", path=PREDICT, body_file="gone.json")
    with pytest.raises(PreflightRefused, match=r"the body file .*gone.json can't be read"):
        smoke(target_of(servers, 0.5), test, root=tmp_path)


def test_headers_are_sent_and_json_is_declared() -> None:
    request = request_of(SmokeTest("h", headers={"X-Key": "1"}, body={"a": 1}), Path())
    assert request.headers == {"X-Key": "1", "Content-Type": "application/json"}
    assert request.body == b'{"a": 1}'
    plain = request_of(SmokeTest("h", headers={"content-type": "text/plain"}, body="x"), Path())
    assert plain.headers == {"content-type": "text/plain"}


def test_a_command_runs_once_with_its_placeholders_filled_in(servers: ExitStack) -> None:
    target = target_of(servers, 1, 1)
    test = SmokeTest("op", run=("{python}", "-c", "print('{model}', '{release}', {{}})"))
    (result,) = smoke(target, test)
    assert (result.replica, result.ok) == ("r2", True)
    assert target.ran == [[sys.executable, "-c", "print('/models/m', 'r2', {})"]]


def test_a_command_that_names_the_port_runs_for_each_replica(servers: ExitStack) -> None:
    target = target_of(servers, 1, 1)
    code = "import socket; socket.create_connection(('127.0.0.1', {port})).close()"
    results = smoke(target, SmokeTest("connects", run=("{python}", "-c", code)))
    assert [(result.replica, result.ok) for result in results] == [("r2-1", True), ("r2-2", True)]


def test_a_failed_command_shows_the_end_of_its_output(servers: ExitStack) -> None:
    code = "import sys; print('checked 3 ops'); sys.exit('AscendSigmoid is off by 0.2')"
    (result,) = failure(
        target_of(servers, 1), SmokeTest("ops", run=("{python}", "-c", code))
    ).results
    assert result.problems[0].endswith(": exit code 1: AscendSigmoid is off by 0.2")
    assert result.output == "checked 3 ops\nAscendSigmoid is off by 0.2"


def test_a_hanging_candidate_costs_no_more_than_the_time_limit(servers: ExitStack) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(1)

    server = servers.enter_context(raw_server(talk))
    target = ScriptedTarget([observed()], {"r2": [Endpoint(server.host, server.port, name="r2-1")]})
    (result,) = failure(target, SmokeTest("hangs", path="/", timeout_s=0.2)).results
    assert result.problems == ("GET /: no whole answer within 0.2 s",)
    assert result.duration_ms >= 200


def test_a_person_can_stop_it(servers: ExitStack) -> None:
    def stop() -> None:
        raise Aborted("stop")

    with pytest.raises(Aborted):
        run_smoke(target_of(servers, 1), RELEASE, [predicts(1)], Path(), stop)
