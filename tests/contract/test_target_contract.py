"""What every target must do, whatever it runs on."""

from __future__ import annotations

import time

import pytest

from opsctl.errors import Superseded
from opsctl.model import DesiredState, Guard, Observed, Share, Stamp
from tests.contract.stage import Holder, Stage

LEASE_S = 5.0
"""Long enough for a holder that a slow machine lets wait."""


def called(stage: Stage, seen: Observed) -> list[str]:
    """What all replicas are called, sorted."""
    return sorted(stage.called(sorted(replica.name for replica in seen.replicas)))


def test_a_new_service_runs_nothing(new_stage: Stage) -> None:
    seen = new_stage.target.observe()
    assert (seen.stamp, seen.desired, seen.converged) == (Stamp(0, 0), DesiredState(), True)
    assert seen.replicas == ()


def test_an_applied_state_is_reached_and_serves(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    seen = holder.converge(Share("r1", 2, 100))
    assert [(r.phase, r.role) for r in seen.of("r1")] == [("ready", "serving")] * 2
    assert called(stage, seen) == ["r1-1", "r1-2"]
    assert seen.weights == {"r1": 100}
    assert seen.front_url == stage.target.front_door().url
    assert holder.answers(10) == {"r1": 10}


def test_applying_the_same_state_again_changes_nothing(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    before = holder.converge(Share("r1", 1, 100))
    stage.target.apply(before.desired, before.stamp, Guard(before.desired))
    after = holder.wait(lambda seen: seen.converged)
    assert [(r.name, r.pid) for r in after.replicas] == [(r.name, r.pid) for r in before.replicas]
    assert after.stamp == before.stamp


def test_a_candidate_without_traffic_has_private_endpoints_only(
    stage: Stage, holder: Holder
) -> None:
    stage.release("r1")
    stage.release("r2")
    holder.converge(Share("r1", 1, 100), Share("r2", 1, 0))
    assert holder.answers(20) == {"r1": 20}
    (endpoint,) = stage.target.endpoints("r2")
    assert stage.called([endpoint.name]) == ["r2-1"]
    assert endpoint.port > 0


def test_a_baseline_copy_stands_beside_its_release(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    seen = holder.converge(Share("r1", 1, 100), Share("r1", 1, role="baseline"))
    assert stage.called(r.name for r in seen.of("r1", "baseline")) == ["r1-b1"]
    assert stage.called(e.name for e in stage.target.endpoints("r1", "baseline")) == ["r1-b1"]
    assert stage.called(e.name for e in stage.target.endpoints("r1")) == ["r1-1"]


def test_traffic_follows_the_weights(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2")
    seen = holder.converge(Share("r1", 2, 75), Share("r2", 1, 25))
    assert seen.weights == {"r1": 75, "r2": 25}
    answers = holder.answers(200)
    assert abs(answers["r2"] - 50) <= 2


def test_traffic_never_goes_to_a_release_that_is_not_ready(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2", APP_START="4")
    holder.converge(Share("r1", 1, 100))
    holder.apply(Share("r2", 1, 100))
    assert set(holder.answers(20)) == {"r1"}
    holder.wait(lambda seen: seen.converged)
    assert holder.answers(20) == {"r2": 20}


def test_a_release_that_is_not_wanted_any_more_is_removed(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2")
    holder.converge(Share("r1", 1, 100), Share("r2", 1, 0))
    seen = holder.converge(Share("r1", 1, 100))
    assert called(stage, seen) == ["r1-1"]


def test_replicas_are_added_and_taken_away(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 1, 100))
    seen = holder.converge(Share("r1", 3, 100))
    assert called(stage, seen) == ["r1-1", "r1-2", "r1-3"]
    seen = holder.converge(Share("r1", 2, 100))
    assert called(stage, seen) == ["r1-1", "r1-2"]
    assert holder.answers(10) == {"r1": 10}


def test_a_dead_replica_is_replaced_and_counted(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 2, 100))
    stage.kill_a_replica("r1")
    if stage.retries:
        assert holder.answers(20) == {"r1": 20}
    seen = holder.wait(lambda seen: seen.converged and any(r.restarts for r in seen.replicas))
    assert holder.answers(20) == {"r1": 20}
    assert sum(r.restarts for r in seen.replicas) == 1


def test_a_release_that_exits_at_start_says_so(stage: Stage, holder: Holder) -> None:
    stage.release("r1", APP_EXIT="3")
    holder.apply(Share("r1", 1, 0))
    # Between two starts; a look that comes late sees the next one.
    phases = ("backoff", "crash_loop")
    seen = holder.wait(lambda seen: any(r.restarts and r.phase in phases for r in seen.replicas))
    (replica,) = seen.replicas
    assert replica.exit_code == 3
    assert "cannot load the model" in replica.reason
    assert any("cannot load the model" in line for line in stage.target.logs("r1"))


def test_an_older_epoch_changes_nothing(stage: Stage) -> None:
    stage.release("r1")
    newer, older = Holder(stage, epoch=7), Holder(stage, epoch=6)
    newer.converge(Share("r1", 1, 100))
    with pytest.raises(Superseded):
        older.apply()
    with pytest.raises(Superseded):
        stage.target.renew(older.epoch)
    with pytest.raises(Superseded):
        stage.target.down(older.epoch)
    assert newer.answers(5) == {"r1": 5}
    assert stage.target.observe().stamp.epoch == newer.epoch


def test_a_newer_holder_shuts_the_older_one_out_at_its_first_renewal(stage: Stage) -> None:
    stage.release("r1")
    older = Holder(stage, epoch=1)
    older.converge(Share("r1", 1, 100))
    stage.target.renew(older.epoch + 1)
    with pytest.raises(Superseded):
        older.apply()


def test_the_guard_puts_the_safe_state_in_force(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2")
    safe = holder.converge(Share("r1", 1, 100)).desired
    holder.converge(Share("r1", 1, 50), Share("r2", 1, 50), safe=safe, lease_s=LEASE_S)
    began = time.monotonic()
    stage.target.renew(holder.epoch)
    holder.wait(lambda seen: seen.weights == {"r1": 100}, renew=False)
    assert time.monotonic() - began >= LEASE_S
    seen = holder.wait(lambda seen: seen.guarded, renew=False)
    assert seen.guard_reason
    # What says that it has the new weights may be a moment ahead of what sends the requests.
    holder.wait(lambda _: holder.answers(10) == {"r1": 10}, renew=False)


def test_a_warm_release_retires_by_itself(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2")
    due = time.time() + 5
    holder.converge(Share("r1", 1, 0, retire_at=due), Share("r2", 1, 100))
    seen = holder.wait(lambda seen: not seen.of("r1"), renew=False)
    assert time.time() >= due
    assert seen.weights == {"r2": 100}


def test_requests_and_errors_are_counted_by_release(new_stage: Stage) -> None:
    stage, holder = new_stage, Holder(new_stage)
    stage.release("r1")
    stage.release("r2", APP_FAIL_PERCENT="100")
    holder.converge(Share("r1", 1, 50), Share("r2", 1, 50))
    for _ in range(40):
        stage.ask()
    seen = holder.wait(lambda seen: seen.front_requests == 40)
    r1, r2 = seen.traffic_of("r1"), seen.traffic_of("r2")
    assert r1.requests + r2.requests == 40
    assert (r1.errors, r2.errors) == (0, r2.requests)
    assert abs(r2.requests - 20) <= 1
    assert seen.front_errors == r2.requests


def test_a_command_runs_in_the_environment_of_a_release(stage: Stage, holder: Holder) -> None:
    stage.release("r1", APP_COLOUR="blue")
    holder.converge(Share("r1", 1, 0))
    done = stage.target.run_in(
        "r1", ["/bin/sh", "-c", "echo $APP_COLOUR $OPSCTL_RELEASE $EXTRA; exit 5"],
        env={"EXTRA": "more"}, timeout_s=30,
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (5, "blue r1 more\n")


def test_logs_and_events_tell_of_each_replica(new_stage: Stage) -> None:
    stage, holder = new_stage, Holder(new_stage)
    stage.release("r1")
    holder.converge(Share("r1", 2, 100))
    names = {line.split(" ")[0] for line in stage.target.logs("r1")}
    assert sorted(stage.called(sorted(names))) == ["r1-1", "r1-2"]
    events = stage.target.events("r1")
    for name in names:
        assert any(stage.begins(event, name) for event in events)


def test_preflight_of_a_good_place_finds_nothing(stage: Stage) -> None:
    state = DesiredState((Share("r1", 1, 0),))
    assert [f for f in stage.target.preflight(state) if f.status == "fail"] == []


def test_down_leaves_nothing(stage: Stage, holder: Holder) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 2, 100))
    stage.target.down(holder.epoch)
    assert stage.left_over() == []
    stage.target.down(holder.epoch)
    assert stage.target.observe().replicas == ()
