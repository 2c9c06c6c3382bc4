"""What users get at the front door, and what `opsctl health` says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opsctl.checks.exchange import Request
from opsctl.checks.front_door import ProbeCount, ask_front_door, prove_serving, safe_request
from opsctl.checks.health import check_service
from opsctl.config.settings import App, Bench, Config, Project, Resources, Service, SmokeTest
from opsctl.errors import HealthFailed, TargetUnreachable
from opsctl.model import Endpoint, Finding, Share
from tests.checks.fakes import ScriptedTarget, Seen, Waiting, observed, replica
from tests.checks.servers import Answering, Reply, http_server

GET = Request("GET", "/", timeout_s=5)
APP = App(directory="app", command=("x",))
HEALTHY = observed(replica("r1-1"))


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def door(servers: ExitStack, answering: Answering, *scenes: Any) -> ScriptedTarget:
    return ScriptedTarget(
        list(scenes) or [HEALTHY], door=servers.enter_context(http_server(answering))
    )


def by(release: str, status: int = 200) -> Answering:
    return lambda *_: (status, {"X-Opsctl-Release": release}, b"")


def project(**changes: Any) -> Project:
    service = replace(Service(app=APP, smoke=(SmokeTest("up", path="/up"),)), **changes)
    config = Config(services={"s": service})
    return Project(Path("/opsctl.yaml"), config, "production", "s", service, "local")


def asked_for(**changes: Any) -> tuple[str, str, bytes | None]:
    request = safe_request(replace(Service(app=APP), **changes), Path())
    return request.method, request.path, request.body


def test_a_probe_tells_status_release_and_time(servers: ExitStack) -> None:
    probe = ask_front_door(door(servers, by("r1", 404)), GET)
    assert (probe.status, probe.release, probe.failed, probe.what) == (
        404,
        "r1",
        False,
        "status 404",
    )
    assert 0 < probe.duration_ms < 5000


def test_5xx_and_no_answer_are_failed_probes(servers: ExitStack) -> None:
    assert ask_front_door(door(servers, by("r1", 503)), GET).failed is True
    nobody = ScriptedTarget([HEALTHY], door=Endpoint("127.0.0.1", 1))
    probe = ask_front_door(nobody, GET)
    assert (probe.failed, probe.status, probe.what) == (True, 0, "[Errno 111] Connection refused")


def test_probes_ask_the_first_get_of_the_smoke_tests() -> None:
    smoke = (
        SmokeTest("op", run=("true",)),
        SmokeTest("writes", method="POST", path="/write", body=1),
        SmokeTest("reads", path="/read"),
    )
    assert asked_for(smoke=smoke) == ("GET", "/read", None)


def test_probes_post_only_what_may_be_benchmarked() -> None:
    smoke = (
        SmokeTest("writes", method="POST", path="/write", body=1),
        SmokeTest("predicts", method="POST", path="/predict", body=[2]),
    )
    assert asked_for(smoke=smoke) == ("GET", "/", None)
    assert asked_for(smoke=smoke, bench=Bench(path="/predict")) == ("POST", "/predict", b"[2]")


def test_a_smoke_test_whose_body_is_missing_is_passed_over() -> None:
    smoke = (SmokeTest("reads", path="/read", body_file="/no/such/file"),)
    assert asked_for(smoke=smoke) == ("GET", "/", None)


def test_serving_is_proved_when_only_the_release_answers(servers: ExitStack) -> None:
    asked: list[int] = []

    def switching(method: str, path: str, body: bytes) -> Reply:
        asked.append(1)
        release = {1: "r1", 2: "r2", 3: "r1"}.get(len(asked), "r2")
        return 200, {"X-Opsctl-Release": release}, b""

    count = prove_serving(door(servers, switching), "r2", GET, Waiting().wait, 10)
    assert dict(count.answered_by) == {"r1": 2, "r2": 4}
    assert (count.probes, count.failures) == (6, 0)


def test_a_release_that_does_not_answer_alone_is_not_proved(servers: ExitStack) -> None:
    waiting = Waiting()
    with pytest.raises(HealthFailed, match=r"r2 does not answer alone at .* after 0.1 s") as caught:
        prove_serving(door(servers, by("r1")), "r2", GET, waiting.wait, 0.1)
    assert caught.value.why == "the last answer came from r1 (status 200)"


def test_answers_that_never_tell_their_release_are_no_reason_to_call_a_rollback_failed(
    servers: ExitStack,
) -> None:
    def nameless(method: str, path: str, body: bytes) -> Reply:
        return 200, {}, b""

    count = prove_serving(door(servers, nameless), "r2", GET, Waiting().wait, 10)
    assert (count.probes, dict(count.answered_by)) == (3, {})


def test_an_answer_without_a_release_proves_nothing_where_others_tell_theirs(
    servers: ExitStack,
) -> None:
    asked: list[int] = []

    def mixed(method: str, path: str, body: bytes) -> Reply:
        asked.append(1)
        header = {} if len(asked) in (2, 3, 4) else {"X-Opsctl-Release": "r2"}
        return 200, header, b""

    count = prove_serving(door(servers, mixed), "r2", GET, Waiting().wait, 10)
    assert count.probes == 7


def test_failed_probes_are_kept_up_to_a_number() -> None:
    count = ProbeCount()
    probe = ask_front_door(ScriptedTarget([HEALTHY], door=Endpoint("127.0.0.1", 1)), GET)
    for second in range(30):
        count.add(probe, 100.0 + second)
    data = count.to_dict()
    assert (data["probes"], data["failures"], len(data["failed"])) == (30, 30, 20)
    assert data["failed"][0]["time"] == 100.0
    assert data["failed"][0]["what"] == "[Errno 111] Connection refused"


def findings(target: ScriptedTarget, chosen: Project | None = None) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_service(target, chosen or project())}


def test_a_healthy_service_is_all_ok(servers: ExitStack) -> None:
    found = findings(door(servers, by("r1")))
    assert {check: finding.status for check, finding in found.items()} == {
        "balancer": "ok",
        "weights": "ok",
        "replica r1-1": "ok",
        "front door": "ok",
    }
    assert found["front door"].what.startswith("GET /up answered 200 from r1 in ")


def test_a_target_that_does_not_answer_is_the_only_finding() -> None:
    target = ScriptedTarget([TargetUnreachable("the supervisor is gone")])
    (finding,) = check_service(target, project())
    assert (finding.check, finding.status) == ("target", "fail")


def test_nothing_serves_before_the_first_deploy() -> None:
    (finding,) = check_service(ScriptedTarget([observed(seen=Seen(desired=()))]), project())
    assert (finding.status, finding.what, finding.next_step) == (
        "fail",
        "no release serves",
        "Run: opsctl deploy",
    )


def test_each_fault_has_its_finding(servers: ExitStack) -> None:
    sick = observed(
        replica("r1-1", "crash_loop", reason="exit code 1", restarts=4),
        replica("r1-2", restarts=2, rss_bytes=95 << 20),
        seen=Seen(
            balancer_up=False,
            converged=False,
            guard_reason="the lease ran out",
            desired=(Share("r1", 3, 100), Share("r0", 1, 0)),
        ),
    )
    chosen = project(resources=Resources(memory_mb=100))
    found = findings(door(servers, by("r9"), sick), chosen)
    assert {check: finding.status for check, finding in found.items()} == {
        "balancer": "fail",
        "weights": "warn",
        "guard": "warn",
        "replica r1-1": "fail",
        "replica r1-2": "warn",
        "replicas r1": "fail",
        "memory r1-2": "warn",
        "replicas r0": "warn",
        "front door": "fail",
    }
    assert found["replica r1-1"].what == "r1-1 is crash_loop (exit code 1), 4 restarts"
    assert found["replicas r1"].what == "2 of 3 replicas of r1 run"
    assert found["memory r1-2"].what == "r1-2 uses 95 MB of 100 MB"
    assert found["front door"].what == "the answer came from r9, not from r1"


def test_an_answer_without_a_release_is_not_ours(servers: ExitStack) -> None:
    found = findings(door(servers, lambda *_: (200, {}, b"")))
    assert found["front door"].what == (
        "the answer came from somebody else (no release in the answer), not from r1"
    )


def test_during_a_canary_both_releases_may_answer(servers: ExitStack) -> None:
    both = observed(
        replica("r1-1"),
        replica("r2-1"),
        seen=Seen(desired=(Share("r1", 1, 95), Share("r2", 1, 5))),
    )
    found = findings(door(servers, by("r2"), both))
    assert found["front door"].status == "ok"
    assert found["weights"].what == "traffic is as desired: r1 95 %, r2 5 %"
