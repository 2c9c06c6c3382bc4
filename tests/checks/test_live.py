"""Live limits: counted since the hold began, and broken at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opsctl.checks.exchange import Request
from opsctl.checks.live import LiveReport, Trial, watch_live
from opsctl.clock import SystemClock
from opsctl.errors import Aborted, HealthFailed, TargetUnreachable
from opsctl.model import LiveLimits, Observed, Replica, Traffic
from opsctl.wait import Wait
from tests.checks.fakes import Scene, ScriptedTarget, Seen, Waiting, observed, replica
from tests.checks.servers import Reply, http_server

LIMITS = LiveLimits(error_rate_max=0.01, requests_min=20, restarts_max=0)
GET = Request("GET", "/", timeout_s=5)


def scene(
    requests: int, errors: int, *replicas: Replica, front: tuple[int, int] = (0, 0)
) -> Observed:
    seen = Seen((Traffic("r2", requests, errors),), front_requests=front[0], front_errors=front[1])
    return observed(*(replicas or (replica("r2-1"),)), seen=seen)


@contextmanager
def front_door() -> Iterator[ScriptedTarget]:
    def answering(method: str, path: str, body: bytes) -> Reply:
        return 200, {"X-Opsctl-Release": "r2"}, b""

    with http_server(answering) as door:
        yield ScriptedTarget([], door=door)


def watch(*scenes: Scene, hold_s: float = 2.0, limits: LiveLimits = LIMITS) -> LiveReport:
    """Watch on a manual clock: an observation every 0.2 s."""
    with front_door() as target:
        target.scenes = list(scenes)
        return watch_live(target, Trial("r2", limits, hold_s, GET), Waiting().wait)


def failure(*scenes: Scene, log: tuple[str, ...] = ()) -> HealthFailed:
    with front_door() as target:
        target.scenes, target.log = list(scenes), log
        with pytest.raises(HealthFailed) as caught:
            watch_live(target, Trial("r2", LIMITS, 60.0, GET), Waiting().wait)
    assert target.asked == len(scenes), "it failed with the last scene, not later"
    return caught.value


def test_a_quiet_hold_passes_and_reports_what_grew_since_it_began() -> None:
    before = scene(1000, 50, front=(5000, 60))
    report = watch(before, scene(1040, 50, front=(5090, 61)), scene(1100, 51, front=(5200, 62)))
    assert (report.requests, report.errors, report.restarts) == (100, 1, 0)
    assert (report.front_requests, report.front_errors) == (200, 2)
    assert report.duration_s == pytest.approx(2.0)


def test_errors_over_the_limit_fail_at_once_with_figures() -> None:
    error = failure(scene(1000, 0), scene(1010, 0), scene(1050, 1), log=("r2-1 | KeyError",))
    assert error.what == "r2 broke a live limit"
    assert error.why == ("1 of its 50 requests failed (2.00%, allowed 1.00%)\n  r2-1 | KeyError")


def test_a_few_requests_decide_nothing() -> None:
    assert watch(scene(0, 0), scene(19, 19)).errors == 19


def test_errors_at_the_limit_are_allowed() -> None:
    assert watch(scene(0, 0), scene(100, 1)).errors == 1


def test_a_balancer_that_starts_from_zero_loses_nothing_that_was_counted() -> None:
    report = watch(scene(1000, 3), scene(1100, 3), scene(40, 0), scene(60, 0))
    assert (report.requests, report.errors) == (160, 0)


@pytest.mark.parametrize(
    ("sick", "why"),
    [
        (
            replica("r2-1", "backoff", exit_code=-11, reason="signal 11"),
            "r2-1 is backoff, after signal 11: signal 11",
        ),
        (
            replica("r2-1", "unready", reason="GET /health/ready: 500"),
            "r2-1 is unready: GET /health/ready: 500",
        ),
        (replica("r2-1", restarts=3), "1 restarts during the hold, allowed 0"),
    ],
)
def test_a_replica_that_falls_ill_fails_at_once(sick: Replica, why: str) -> None:
    error = failure(scene(0, 0, replica("r2-1", restarts=2)), scene(0, 0, sick))
    assert error.why.splitlines()[0] == why


def test_restarts_before_the_hold_do_not_count() -> None:
    assert watch(scene(0, 0, replica("r2-1", restarts=5))).restarts == 0


def test_a_replica_that_is_gone_fails() -> None:
    assert failure(scene(0, 0), observed(replica("r1-1"))).why.startswith(
        "it has no replica any more"
    )


def test_a_replica_that_was_told_to_stop_is_not_ill() -> None:
    well, other = replica("r2-1"), replica("r2-2")
    leaving = replica("r2-1", "stopping")
    report = watch(scene(0, 0, well), scene(9, 0, leaving, other), scene(9, 0, other))
    assert report.requests == 9


def test_a_guard_that_stepped_in_fails() -> None:
    guarded = observed(replica("r2-1"), seen=Seen(guard_reason="no lease for 4 s"))
    assert failure(scene(0, 0), guarded).why.startswith(
        "the target's guard stepped in: no lease for 4 s"
    )


def test_a_replica_that_still_starts_is_waited_for() -> None:
    starting = scene(0, 0, replica("r2-1"), replica("r2-2", "starting"))
    assert watch(starting, scene(0, 0, replica("r2-1"), replica("r2-2"))).restarts == 0


def test_a_target_that_is_away_for_a_moment_is_asked_again() -> None:
    report = watch(scene(0, 0), TargetUnreachable("away"), scene(30, 0))
    assert report.requests == 30


def test_a_target_that_stays_away_is_told() -> None:
    with pytest.raises(TargetUnreachable):
        watch(scene(0, 0), TargetUnreachable("away"), hold_s=60)


def test_a_hold_of_no_time_still_looks_once() -> None:
    assert watch(scene(0, 0), scene(7, 0), hold_s=0).requests == 7


def test_the_wait_can_be_stopped() -> None:
    with front_door() as target:
        target.scenes = [scene(0, 0)]
        waiting = Waiting(stop=Aborted("stop"))
        with pytest.raises(Aborted):
            watch_live(target, Trial("r2", LIMITS, 60.0, GET), waiting.wait)


def test_progress_is_told_every_five_seconds() -> None:
    with front_door() as target:
        target.scenes = [scene(0, 0), scene(12, 0)]
        waiting = Waiting()
        watch_live(target, Trial("r2", LIMITS, 12.0, GET), waiting.wait)
    assert waiting.told == [
        "r2: 5 s of 12 s, 12 requests, 0 failed",
        "r2: 10 s of 12 s, 12 requests, 0 failed",
    ]


def test_probes_go_through_the_front_door_meanwhile_and_record_failures() -> None:
    asked: list[str] = []

    def answering(method: str, path: str, body: bytes) -> Reply:
        asked.append(path)
        status = 503 if len(asked) == 2 else 200
        return status, {"X-Opsctl-Release": "r1" if len(asked) % 2 else "r2"}, b""

    with http_server(answering) as door:
        target = ScriptedTarget([scene(0, 0)], door=door)
        wait = Wait(SystemClock(), asked.append, lambda: None)
        began = time.monotonic()
        trial = Trial("r2", LIMITS, 2.0, Request("GET", "/probe", timeout_s=5))
        probes = watch_live(target, trial, wait).probes
        took_s = time.monotonic() - began
    assert probes["probes"] == len(asked)
    assert 2 <= probes["probes"] <= 1 + 5 * took_s
    assert probes["failures"] == 1
    assert [failed["what"] for failed in probes["failed"]] == ["status 503"]
    assert probes["failed"][0]["release"] == "r2"
    assert sum(probes["answered_by"].values()) == probes["probes"]
    assert set(asked) == {"/probe"}
