"""Waiting for health: no second too long, and the reason is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from opsctl.checks.health import HealthGoal, check_service, wait_until_healthy
from opsctl.config.settings import App, Health, Project, Service
from opsctl.errors import Aborted, HealthFailed, TargetUnreachable
from opsctl.model import DesiredState, Observed, Replica, Share
from tests.checks.fakes import ScriptedTarget, Seen, Waiting, observed, replica

HEALTH = Health(tries=30, interval_s=2.0, timeout_s=2.0)
GOAL = HealthGoal("r2", 2, HEALTH)
STARTING = observed(replica("r2-1", "starting"), replica("r2-2", "starting"))
HALF = observed(replica("r2-1"), replica("r2-2", "unready", reason="GET /health/ready: 503"))
READY = observed(replica("r2-1"), replica("r2-2"), replica("r1-1"))


def test_the_wait_ends_when_all_replicas_are_ready() -> None:
    waiting = Waiting()
    report = wait_until_healthy(
        ScriptedTarget([observed(), STARTING, HALF, READY]), GOAL, waiting.wait
    )
    assert (report.release, report.role, report.observations) == ("r2", "serving", 4)
    assert [one.name for one in report.replicas] == ["r2-1", "r2-2"]
    assert report.duration_s == pytest.approx(0.3)
    assert waiting.told == []


def test_the_report_becomes_json() -> None:
    data = wait_until_healthy(ScriptedTarget([READY]), GOAL, Waiting().wait).to_dict()
    assert data["replicas"][0]["name"] == "r2-1"
    assert (data["release"], data["duration_s"]) == ("r2", 0.0)


def test_other_releases_and_roles_do_not_count() -> None:
    baseline = replace(replica("r2-b1"), role="baseline")
    target = ScriptedTarget([observed(replica("r1-1"), replica("r2-1"), baseline)])
    with pytest.raises(HealthFailed, match="1 of 2 replicas of r2 were healthy within 62 s"):
        wait_until_healthy(target, GOAL, Waiting().wait)
    goal = HealthGoal("r2", 1, HEALTH, role="baseline")
    assert wait_until_healthy(target, goal, Waiting().wait).replicas == (baseline,)


def test_it_gives_up_after_all_tries_and_tells_states_and_log() -> None:
    waiting = Waiting()
    log = [f"r2-2 | line {number}" for number in range(30)]
    with pytest.raises(HealthFailed) as caught:
        wait_until_healthy(ScriptedTarget([HALF], log=log), GOAL, waiting.wait)
    error = caught.value
    assert error.what == "1 of 2 replicas of r2 were healthy within 62 s"
    first, *lines = error.why.splitlines()
    assert first == "r2-1 is ready; r2-2 is unready (GET /health/ready: 503)"
    assert lines == [f"  {line}" for line in log[-20:]]
    assert "opsctl logs r2" in error.next_step
    # 30 tries of 2 s and the time limit of the last one.
    assert 62.0 < waiting.clock.monotonic() - 1000.0 < 62.5


def test_a_heartbeat_is_told_every_five_seconds() -> None:
    waiting = Waiting()
    with pytest.raises(HealthFailed):
        wait_until_healthy(ScriptedTarget([HALF]), GOAL, waiting.wait)
    assert len(waiting.told) == 12
    assert waiting.told[0] == (
        "r2: 1 of 2 replicas healthy after 5 s of 62 s; r2-2 is unready (GET /health/ready: 503)"
    )


@pytest.mark.parametrize(
    ("dead", "what"),
    [
        (
            replica("r2-1", "exited", exit_code=3, reason="exit code 3"),
            "r2-1 died with exit code 3 before it was healthy",
        ),
        (
            replica("r2-1", "backoff", exit_code=-9, restarts=1),
            "r2-1 died with signal 9 before it was healthy",
        ),
        (
            replica("r2-1", "starting", exit_code=1, restarts=1),
            "r2-1 died with exit code 1 before it was healthy",
        ),
        (
            replica("r2-1", "crash_loop", exit_code=1, restarts=4),
            "r2-1 crashes again and again (4 restarts), last with exit code 1",
        ),
        (
            replica("r2-1", "crash_loop", reason="ErrImagePull: there is no such image"),
            "r2-1 can not start",
        ),
    ],
)
def test_a_dead_replica_fails_at_once_with_code_reason_and_log(dead: Replica, what: str) -> None:
    waiting = Waiting()
    log = ["r2-1 | Traceback", "r2-1 | ImportError: libascend_ops.so"]
    with pytest.raises(HealthFailed) as caught:
        wait_until_healthy(ScriptedTarget([observed(dead)], log=log), GOAL, waiting.wait)
    assert caught.value.what == what
    assert caught.value.why.splitlines()[1:] == [f"  {line}" for line in log]
    assert waiting.clock.monotonic() == 1000.0


def test_a_release_that_proved_itself_is_forgiven_a_crash_but_no_crash_loop() -> None:
    forgiving = replace(GOAL, replicas=1, forgiving=True)
    again = observed(replica("r2-1", "backoff", restarts=1))
    back = observed(replica("r2-1", restarts=2))
    report = wait_until_healthy(ScriptedTarget([again, back]), forgiving, Waiting().wait)
    assert report.replicas[0].restarts == 2
    looping = observed(replica("r2-1", "crash_loop", restarts=4))
    with pytest.raises(HealthFailed, match="crashes again and again"):
        wait_until_healthy(ScriptedTarget([again, looping]), forgiving, Waiting().wait)


def test_a_missing_log_does_not_hide_the_reason() -> None:
    dead = observed(replica("r2-1", "exited", exit_code=3, reason="exit code 3"))
    with pytest.raises(HealthFailed) as caught:
        wait_until_healthy(ScriptedTarget([dead]), GOAL, Waiting().wait)
    assert caught.value.why == "exit code 3\n  (its log is empty)"


def test_a_guard_that_stepped_in_ends_the_wait() -> None:
    taken = observed(replica("r2-1", "starting"), seen=Seen(guard_reason="the lease ran out"))
    with pytest.raises(HealthFailed, match="guard stepped in: the lease ran out"):
        wait_until_healthy(ScriptedTarget([taken]), GOAL, Waiting().wait)


def test_a_target_that_is_away_for_a_moment_is_asked_again() -> None:
    away = TargetUnreachable("nobody answers")
    report = wait_until_healthy(ScriptedTarget([away, away, READY]), GOAL, Waiting().wait)
    assert report.observations == 1


def test_a_target_that_stays_away_is_told() -> None:
    waiting = Waiting()
    with pytest.raises(TargetUnreachable):
        wait_until_healthy(ScriptedTarget([TargetUnreachable("gone")]), GOAL, waiting.wait)
    assert 10.0 < waiting.clock.monotonic() - 1000.0 < 10.5


def test_the_wait_can_be_stopped() -> None:
    waiting = Waiting(stop=Aborted("stop"))
    with pytest.raises(Aborted):
        wait_until_healthy(ScriptedTarget([STARTING]), GOAL, waiting.wait)


def test_what_the_target_tries_in_vain_is_told_where_it_matters() -> None:
    serving = DesiredState((Share("r1", 1, 100),))
    trouble = "cannot open the front door on port 8501: it is held by pid 412 (python)"
    up = replace(observed(replica("r1-1")), desired=serving, trouble=trouble, balancer_up=True)
    project = SimpleNamespace(service=Service(App("app", ("run",))), root=Path())

    def found(scene: Observed) -> dict[str, tuple[str, str]]:
        findings = check_service(ScriptedTarget([scene]), cast(Project, project))
        return {one.check: (one.status, one.what) for one in findings}

    assert found(up)["target"] == ("warn", trouble)
    down = found(replace(up, balancer_up=False))
    assert down["balancer"] == ("fail", f"the balancer is down: {trouble}")
    assert "target" not in down
    assert "target" not in found(replace(up, trouble=""))
