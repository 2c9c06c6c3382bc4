"""next_step: every path ends, and traffic is only ever on proved releases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsctl.config.settings import CanaryStage, Strategy
from opsctl.model import DesiredState, Share
from opsctl.plan import PlanRequest, Step, plan_deploy, plan_rollback
from opsctl.records import Record, make_record
from opsctl.rollout import (
    CLOSE,
    Progress,
    ReleaseMarks,
    fold,
    next_step,
    outcome,
    release_marks,
    rollback_target,
    safe_state,
    undo_plan,
    was_proved,
)

MAX_RECORDS = 400
"""Far more than any rollout writes; a path that is longer does not end."""

BASE = DesiredState((Share("r1", 3, 100), Share("r0", 3, 0, retire_at=9.0)))


def opened(plan: tuple[Step, ...], *, base: str | None = "r1", op: str = "deploy") -> list[Record]:
    before = BASE if base else DesiredState()
    data = {
        "op": op,
        "candidate": "r2" if op == "deploy" else "r0",
        "base": base,
        "before": before.to_dict(),
        "plan": [step.to_dict() for step in plan],
    }
    return [make_record(None, 1, 0.0, "opened", data)]


def add(records: list[Record], kind: str, **data: Any) -> None:
    records.append(make_record(records[-1], 1, 0.0, kind, data))


def request(strategy: Strategy, base: str | None = "r1", replicas: int = 3) -> PlanRequest:
    before = BASE if base else DesiredState()
    return PlanRequest("r2", base, before, replicas, strategy, bench_cpus=(1,))


def error(code: int = 13) -> dict[str, Any]:
    return {"exit_code": code, "what": "broken", "why": "because", "next_step": ""}


def kinds(plan: tuple[Step, ...]) -> list[str]:
    return [step.id for step in plan]


def test_a_canary_proves_before_it_shifts_and_drains_last() -> None:
    strategy = Strategy(stages=(CanaryStage(5), CanaryStage(50, approval=True)))
    assert kinds(plan_deploy(request(strategy))) == [
        "preflight", "build", "start", "smoke", "gate",
        "shift-5", "approve-50", "shift-50", "promote", "drain",
    ]  # fmt: skip


def test_the_first_deploy_has_no_baseline_and_no_stages() -> None:
    plan = plan_deploy(request(Strategy(), base=None))
    assert kinds(plan) == ["preflight", "build", "start", "smoke", "gate", "promote", "drain"]
    gate = next(step for step in plan if step.id == "gate")
    assert gate.params["baseline"] is None


def test_the_gate_runs_beside_a_fresh_copy_of_the_base_on_one_cpu() -> None:
    plan = plan_deploy(request(Strategy()))
    state = next(step for step in plan if step.id == "gate").state
    assert state is not None
    assert state.share("r1", "baseline") == Share("r1", 1, 0, "baseline", (1,))
    assert state.share("r2") == Share("r2", 3, 0, cpus=(1,))
    assert state.weight("r1") == 100


def test_rolling_replaces_one_replica_at_a_time() -> None:
    plan = plan_deploy(request(Strategy(type="rolling")))
    rolls = [step.state for step in plan if step.id.startswith("roll-")]
    seen = [(s.share("r1").replicas, s.share("r2").replicas) for s in rolls if s]  # type: ignore[union-attr]
    assert seen == [(2, 1), (1, 2)]


def test_recreate_with_one_replica_stops_the_old_one_first() -> None:
    before = DesiredState((Share("r1", 1, 100),))
    plan = plan_deploy(PlanRequest("r2", "r1", before, 1, Strategy(type="recreate")))
    assert kinds(plan)[:4] == ["preflight", "build", "stop", "start"]
    assert plan[2].state == DesiredState()


def test_recreate_with_three_never_runs_more_than_three() -> None:
    before = DesiredState((Share("r1", 3, 100),))
    plan = plan_deploy(PlanRequest("r2", "r1", before, 3, Strategy(type="recreate")))
    states = [step.state for step in plan if step.state]
    assert max(sum(share.replicas for share in state.shares) for state in states) == 3


def test_a_rollback_goes_straight_to_full_traffic() -> None:
    plan = plan_rollback(PlanRequest("r0", "r1", BASE, 3, Strategy()))
    assert kinds(plan) == ["start", "promote", "drain"]


def test_a_rollback_without_room_for_two_never_runs_more_replicas_than_before() -> None:
    serving = DesiredState((Share("r2", 3, 100),))
    plan = plan_rollback(PlanRequest("r1", "r2", serving, 3, Strategy(type="recreate")))
    states = [step.state for step in plan if step.state]
    assert max(sum(share.replicas for share in state.shares) for state in states) == 3
    taken = ["make-room", "start", "roll-1", "room-1", "roll-2", "promote", "drain"]
    assert kinds(plan) == taken
    assert states[-1] == DesiredState((Share("r1", 3, 100),))


def test_a_rollback_to_a_release_that_still_runs_needs_no_room() -> None:
    warm = DesiredState((Share("r2", 3, 100), Share("r1", 3, 0)))
    plan = plan_rollback(PlanRequest("r1", "r2", warm, 3, Strategy(type="recreate")))
    assert kinds(plan) == ["start", "promote", "drain"]


def test_a_failed_candidate_that_took_the_room_of_others_goes_to_make_room_for_them() -> None:
    records = opened(plan_deploy(request(Strategy(type="recreate"))))
    path = walk(records, fail="roll-2")
    assert path[-5:] == ["undo-collect", "undo-restore", "undo-prove", "undo-remove", CLOSE]
    states = [
        step.state for step in undo_plan(fold(records)) if step.state and step.id != "undo-collect"
    ]
    assert states == [BASE, BASE, BASE]


def test_a_step_that_began_without_a_result_is_taken_again() -> None:
    plan = plan_deploy(request(Strategy()))
    records = opened(plan)
    add(records, "began", step=plan[0].to_dict())
    assert next_step(fold(records)) == plan[0]


def test_a_failure_before_anything_was_touched_just_closes() -> None:
    plan = plan_deploy(request(Strategy()))
    records = opened(plan)
    add(records, "began", step=plan[0].to_dict())
    add(records, "failed", step="preflight", error=error(4))
    progress = fold(records)
    step = next_step(progress)
    assert step is not None and step.kind == CLOSE
    assert outcome(progress)["exit_code"] == 4


def test_a_failed_candidate_is_taken_off_traffic_first_and_removed_last() -> None:
    plan = plan_deploy(request(Strategy()))
    records = opened(plan)
    path = walk(records, fail="shift-25")
    assert path[-5:] == ["undo-restore", "undo-prove", "undo-collect", "undo-remove", CLOSE]
    progress = fold(records)
    assert progress.current == BASE
    assert outcome(progress)["exit_code"] == 10


def test_without_a_base_a_failure_ends_with_12() -> None:
    records = opened(plan_deploy(request(Strategy(), base=None)), base=None)
    walk(records, fail="smoke")
    assert outcome(fold(records))["exit_code"] == 12


def test_a_failed_undo_ends_with_11() -> None:
    records = opened(plan_deploy(request(Strategy())))
    walk(records, fail="smoke", fail_undo="undo-prove")
    assert outcome(fold(records))["exit_code"] == 11


def test_an_abort_ends_with_23_and_the_old_state() -> None:
    records = opened(plan_deploy(request(Strategy())))
    walk(records, stop_after="shift-5")
    add(records, "requested", id="1", request="abort", by="ann", reason="")
    walk(records)
    progress = fold(records)
    assert (outcome(progress)["exit_code"], progress.current) == (23, BASE)


def test_a_pause_holds_until_somebody_resumes() -> None:
    records = opened(plan_deploy(request(Strategy())))
    add(records, "requested", id="1", request="pause", by="ann", reason="")
    step = next_step(fold(records))
    assert step is not None and step.kind == "pause"
    add(records, "requested", id="2", request="resume", by="ann", reason="")
    step = next_step(fold(records))
    assert step is not None and step.kind == "preflight"


def test_an_approval_counts_only_while_it_is_waited_for() -> None:
    records = opened(plan_deploy(request(Strategy(promote_approval=True))))
    add(records, "requested", id="1", request="approve", by="ann", reason="")
    assert fold(records).approved == frozenset()
    add(records, "waiting", step="approve-promote", reason="")
    add(records, "requested", id="2", request="approve", by="ann", reason="")
    assert fold(records).approved == {"approve-promote"}


def test_only_proved_releases_are_rollback_targets() -> None:
    good, bad = finished("r1"), finished("r2", fail="smoke", base="r1")
    marks = release_marks([finished("r0"), good, bad])
    assert marks.proved == ("r0", "r1")
    assert marks.rejected == {"r2"}
    newest_first = [bad, good, finished("r0")]
    assert rollback_target(newest_first, "r1", ["r0", "r1", "r2"]) == "r0"
    assert rollback_target(newest_first, "r1", ["r1", "r2"]) is None


def test_a_rebuilt_journal_still_knows_which_releases_are_proved() -> None:
    data: dict[str, Any] = {
        "op": "rebuild", "candidate": "r3", "base": None, "before": {"shares": []}, "plan": [],
        "marks": ReleaseMarks(("r0", "r1"), frozenset({"r2"})).to_dict(),
    }  # fmt: skip
    records = [make_record(None, 1, 0.0, "opened", data)]
    add(records, "closed", outcome="rebuilt", exit_code=0, reason="", serving_release="r3")
    rebuilt = fold(records)
    marks = release_marks([finished("r9"), rebuilt])
    assert marks == ReleaseMarks(("r0", "r1", "r3"), frozenset({"r2"}))
    assert rollback_target([rebuilt], "r3", ["r0", "r1", "r2", "r3"]) == "r1"


def test_a_release_was_proved_when_it_once_had_all_traffic_and_never_before() -> None:
    failed, good = finished("r2", fail="smoke", base="r1"), finished("r3", base="r1")
    assert [was_proved([failed, good], name) for name in ("r1", "r2", "r3")] == [
        False, False, True
    ]  # fmt: skip


def finished(candidate: str, *, fail: str = "", base: str | None = None) -> Progress:
    before = DesiredState((Share(base, 1, 100),)) if base else DesiredState()
    plan = plan_deploy(PlanRequest(candidate, base, before, 1, Strategy()))
    data = {
        "op": "deploy", "candidate": candidate, "base": base, "before": before.to_dict(),
        "plan": [step.to_dict() for step in plan],
    }  # fmt: skip
    records = [make_record(None, 1, 0.0, "opened", data)]
    walk(records, fail=fail)
    add(records, "closed", **outcome(fold(records)), serving_release=None)
    return fold(records)


def walk(
    records: list[Record], *, fail: str = "", fail_undo: str = "", stop_after: str = ""
) -> list[str]:
    """Take steps until the end (or a stop); returns the ids taken."""
    taken = []
    while len(records) < MAX_RECORDS:
        step = next_step(fold(records))
        if step is None:
            break
        taken.append(step.id)
        if step.kind == CLOSE:
            break
        add(records, "began", step=step.to_dict())
        if step.id in (fail, fail_undo):
            add(records, "failed", step=step.id, error=error())
        else:
            add(records, "passed", step=step.id, result={})
        if step.id == stop_after:
            break
    return taken


strategies = st.builds(
    Strategy,
    type=st.sampled_from(["canary", "blue-green", "rolling", "recreate"]),
    stages=st.lists(st.integers(1, 99), max_size=4, unique=True).map(
        lambda weights: tuple(CanaryStage(w, approval=w % 2 == 0) for w in sorted(weights))
    ),
    promote_approval=st.booleans(),
    rollback_window_s=st.sampled_from([0.0, 60.0]),
)
events = st.lists(
    st.sampled_from(["pass", "pass", "pass", "fail", "crash", "wait", "abort", "pause", "resume",
                     "approve", "guard", "rollback", "interrupted", "taken"]),
    max_size=40,
)  # fmt: skip


@given(strategies, st.integers(1, 4), st.sampled_from(["r1", None]), st.booleans(), events)
@settings(max_examples=400, deadline=None)
def test_every_path_ends_and_traffic_is_only_ever_on_proved_releases(
    strategy: Strategy, replicas: int, base: str | None, smoke: bool, happenings: list[str]
) -> None:
    before = DesiredState((Share("r1", replicas, 100),)) if base else DesiredState()
    plan = plan_deploy(PlanRequest("r2", base, before, replicas, strategy, smoke=smoke))
    data = {
        "op": "deploy", "candidate": "r2", "base": base, "before": before.to_dict(),
        "plan": [step.to_dict() for step in plan],
    }  # fmt: skip
    records = [make_record(None, 1, 0.0, "opened", data)]
    for index, happening in enumerate(happenings):
        if not happen(records, happening, index):
            break
        check_traffic(records, base)
    if fold(records).paused:
        add(records, "requested", id="end", request="resume", by="x", reason="")
    while len(records) < MAX_RECORDS:
        step = next_step(fold(records))
        assert step is not None
        if step.kind == CLOSE:
            break
        if step.kind == "pause":
            add(records, "requested", id=f"r{len(records)}", request="resume", by="x", reason="")
            continue
        add(records, "began", step=step.to_dict())
        check_traffic(records, base)
        add(records, "passed", step=step.id, result={})
    assert len(records) < MAX_RECORDS
    progress = fold(records)
    ended = outcome(progress)
    serving = progress.current.serving_release
    if ended["exit_code"] == 0:
        assert serving == "r2"
    else:
        assert serving == base
        assert progress.current.weight("r2") == 0


def happen(records: list[Record], happening: str, index: int) -> bool:
    step = next_step(fold(records))
    if step is None or step.kind == CLOSE:
        return False
    if happening in ("abort", "pause", "resume", "approve", "guard", "rollback"):
        add(records, "requested", id=str(index), request=happening, by="x", reason="")
        return True
    if happening in ("interrupted", "taken"):
        add(records, happening, signal=2)
        return True
    if step.kind == "pause":
        return True
    add(records, "began", step=step.to_dict())
    if happening == "pass":
        add(records, "passed", step=step.id, result={})
    elif happening == "fail" and not step.id.startswith("undo-"):
        add(records, "failed", step=step.id, error=error())
    elif happening == "wait":
        add(records, "waiting", step=step.id, reason="")
    return True


def check_traffic(records: list[Record], base: str | None) -> None:
    progress = fold(records)
    state = progress.current
    if state.weight("r2"):
        assert progress.proved, "an unproved candidate has traffic"
    total = sum(share.weight for share in state.shares)
    assert total in (0, 100)
    safe = safe_state(progress, state)
    if not (progress.promoted and not progress.undoing):
        assert safe.weight("r2") == 0
        assert safe.serving_release == base


@pytest.mark.parametrize("weights", [(50, 60), (1, 98)])
def test_weights_that_do_not_sum_to_100_cannot_be_made(weights: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="weights sum to"):
        DesiredState((Share("a", 1, weights[0]), Share("b", 1, weights[1])))
