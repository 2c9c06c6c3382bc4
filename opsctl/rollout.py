"""Pure: what a rollout's records mean, and which step comes next.

    records ──fold──▶ Progress ──next_step──▶ Step, or None when the rollout is closed

Deploy, resume, abort and rollback all walk this one function, so a crash is not a special case:
a step that began without a result is simply taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opsctl.model import DesiredState, Json, Share
from opsctl.plan import Step, undo_steps
from opsctl.records import Record

CLOSE = "close"
PAUSE = "pause"
_DONE = {"rollback": "rolled_back_on_request", "adopt": "adopted"}
"""How rollouts end well that are no deploy."""

WITHDRAWALS = ("abort", "rollback", "guard", "supersede")
"""Requests that take the candidate back."""


@dataclass(frozen=True)
class ReleaseMarks:
    """What all rollouts together say of the releases."""

    proved: tuple[str, ...] = ()
    """Promoted and never taken back, in the order of their last promotion."""
    rejected: frozenset[str] = frozenset()

    def to_dict(self) -> Json:
        return {"proved": list(self.proved), "rejected": sorted(self.rejected)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReleaseMarks:
        return cls(tuple(data["proved"]), frozenset(data["rejected"]))


@dataclass(frozen=True)
class Progress:
    """A rollout as its records tell it."""

    rollout: int
    op: str
    candidate: str
    base: str | None
    before: DesiredState
    plan: tuple[Step, ...]
    passed: Mapping[str, Json]
    """Results of the steps that passed, by id."""
    began: Step | None = None
    """The step that began last."""
    failed: Mapping[str, Any] | None = None
    """The first failure: {"step": id, "error": {...}}."""
    undo_failed: Mapping[str, Any] | None = None
    withdrawal: Mapping[str, Any] | None = None
    """The request that takes the candidate back."""
    approved: frozenset[str] = frozenset()
    waiting: str = ""
    """Id of the step that waits for a person."""
    paused: bool = False
    seen_requests: frozenset[str] = frozenset()
    state: DesiredState | None = None
    """The last state that a step put in force."""
    touched: bool = False
    """Whether the target may have been changed."""
    closed: Mapping[str, Any] | None = None
    inherited: ReleaseMarks | None = None
    """What was known of the releases when a damaged journal was rebuilt."""

    @property
    def undoing(self) -> bool:
        return self.failed is not None or self.withdrawal is not None

    @property
    def current(self) -> DesiredState:
        """The desired state in force."""
        return self.state or self.before

    @property
    def promoted(self) -> bool:
        """The candidate has been proved with all traffic."""
        return "promote" in self.passed

    @property
    def proved(self) -> bool:
        """All trials before the first user traffic have passed."""
        return all(s.id in self.passed for s in self.plan if s.kind in ("start", "smoke", "gate"))


def fold(records: Sequence[Record], number: int = 0) -> Progress:
    """The progress that `records` (of one rollout, oldest first) tell."""
    opened = records[0].data
    progress = Progress(
        rollout=number,
        op=opened["op"],
        candidate=opened["candidate"],
        base=opened["base"],
        before=DesiredState.from_dict(opened["before"]),
        plan=tuple(Step.from_dict(step) for step in opened["plan"]),
        passed={},
        inherited=ReleaseMarks.from_dict(opened["marks"]) if "marks" in opened else None,
    )
    for record in records[1:]:
        progress = _FOLDS.get(record.kind, _keep)(progress, record.data)
    return progress


def next_step(progress: Progress) -> Step | None:
    """The step to take now; None when the rollout is closed."""
    if progress.closed is not None:
        return None
    if progress.undoing:
        return _next_undo(progress)
    if progress.paused:
        return Step(PAUSE, PAUSE, "paused by a person")
    for step in progress.plan:
        if step.id not in progress.passed:
            return step
    return Step(CLOSE, CLOSE, "done")


def _next_undo(progress: Progress) -> Step:
    if not progress.touched or progress.undo_failed:
        return Step(CLOSE, CLOSE, "done")
    for step in undo_plan(progress):
        if step.id not in progress.passed:
            return step
    return Step(CLOSE, CLOSE, "done")


def undo_plan(progress: Progress) -> tuple[Step, ...]:
    """The way back from the last state that the plan put in force."""
    return undo_steps(
        progress.before, progress.base, progress.candidate, _last_forward_state(progress)
    )


def safe_state(progress: Progress, state: DesiredState) -> DesiredState:
    """What may serve users when nobody is in charge while `state` is in force.

    A promoted candidate stays; one that is not yet proved keeps running without traffic, and the
    traffic stays with, or goes back to, the release that served before.
    """
    if progress.promoted and not progress.undoing:
        return state.without_baselines()
    candidate = progress.candidate
    before = progress.before.without_baselines()
    if progress.op == "rollback" and not progress.undoing:
        return state.without_baselines()
    share = state.share(candidate)
    if share is None or before.share(candidate) is not None:
        return before
    return before.put(replace(share, weight=0, cpus=()))


def outcome(progress: Progress) -> Json:
    """How a rollout that has no step left ended: outcome, exit code, reason, next step."""
    if progress.undo_failed:
        return _failed("rollback_failed", 11, progress.undo_failed)
    if progress.withdrawal and not progress.failed:
        request = progress.withdrawal
        by = f"{request['request']} by {request['by']}"
        reason = f"{by}: {request['reason']}" if request.get("reason") else by
        if request["request"] == "guard":
            return _ended("rolled_back", 10 if progress.base else 12, reason)
        return _ended("aborted", 23, reason)
    if progress.failed is None:
        return _ended(_DONE.get(progress.op, "deployed"), 0, "all steps passed")
    if not progress.touched:
        code = progress.failed["error"]["exit_code"]
        name = "refused" if code in (2, 4, 30) else "build_failed"
        return _failed(name, code, progress.failed)
    if progress.op == "rollback":
        return _failed("rollback_failed", 11, progress.failed)
    if progress.base is None:
        return _failed("failed_without_base", 12, progress.failed)
    return _failed("rolled_back", 10, progress.failed)


def final_serving(progress: Progress) -> str | None:
    """The release that serves after the last step taken."""
    return progress.current.serving_release


def _ended(name: str, exit_code: int, reason: str, next_step: str = "") -> Json:
    return {"outcome": name, "exit_code": exit_code, "reason": reason, "next_step": next_step}


def _failed(name: str, exit_code: int, failure: Mapping[str, Any]) -> Json:
    return _ended(name, exit_code, _reason(failure), failure["error"].get("next_step", ""))


def _reason(failure: Mapping[str, Any]) -> str:
    error = failure["error"]
    why = f": {error['why']}" if error.get("why") else ""
    return f"{failure['step']} failed: {error['what']}{why}"


def _last_forward_state(progress: Progress) -> DesiredState:
    states = [s.state for s in progress.plan if s.state and s.id in progress.passed]
    began = progress.began
    if began and began.state and not began.id.startswith("undo-"):
        states.append(began.state)
    elif progress.failed:
        failed = next((s for s in progress.plan if s.id == progress.failed["step"]), None)
        if failed and failed.state:
            states.append(failed.state)
    return states[-1] if states else progress.before


def _keep(progress: Progress, data: Json) -> Progress:
    return progress


def _fold_began(progress: Progress, data: Json) -> Progress:
    step = Step.from_dict(data["step"])
    touched = progress.touched or step.state is not None
    state = step.state or progress.state
    return replace(progress, began=step, touched=touched, state=state, waiting="")


def _fold_passed(progress: Progress, data: Json) -> Progress:
    passed = {**progress.passed, data["step"]: data.get("result") or {}}
    state = DesiredState.from_dict(data["state"]) if data.get("state") else progress.state
    return replace(progress, passed=passed, state=state)


def _fold_failed(progress: Progress, data: Json) -> Progress:
    if data["step"].startswith("undo-"):
        return replace(progress, undo_failed=data)
    return replace(progress, failed=progress.failed or data)


def _fold_requested(progress: Progress, data: Json) -> Progress:
    seen = progress.seen_requests | {data.get("id", "")}
    progress = replace(progress, seen_requests=seen)
    request = data["request"]
    if request in WITHDRAWALS:
        return replace(progress, withdrawal=progress.withdrawal or data)
    if request == "pause":
        return replace(progress, paused=True)
    if request == "approve" and progress.waiting:
        approved = progress.approved | {progress.waiting}
        return replace(progress, approved=approved, paused=False)
    if request in ("resume", "approve"):
        return replace(progress, paused=False)
    return progress


def _fold_waiting(progress: Progress, data: Json) -> Progress:
    return replace(progress, waiting=data["step"])


def _fold_closed(progress: Progress, data: Json) -> Progress:
    return replace(progress, closed=data)


_FOLDS = {
    "began": _fold_began,
    "passed": _fold_passed,
    "failed": _fold_failed,
    "requested": _fold_requested,
    "waiting": _fold_waiting,
    "closed": _fold_closed,
}


def last_state(segments: Iterable[tuple[int, Sequence[Record]]]) -> DesiredState:
    """The desired state that the newest records order."""
    state = DesiredState()
    for number, records in segments:
        state = fold(records, number).current
    return state


def release_marks(rollouts: Iterable[Progress]) -> ReleaseMarks:
    """Which releases may be gone back to. A later promotion clears an earlier rejection."""
    proved: list[str] = []
    rejected: set[str] = set()
    for progress in rollouts:
        if progress.closed is None:
            continue
        if progress.inherited:
            proved, rejected = list(progress.inherited.proved), {*progress.inherited.rejected}
        candidate, good = progress.candidate, progress.closed["exit_code"] == 0
        if good and candidate:
            proved = [r for r in proved if r != candidate] + [candidate]
            rejected.discard(candidate)
            if progress.op == "rollback" and progress.base:
                proved = [r for r in proved if r != progress.base]
                rejected.add(progress.base)
        elif progress.op == "deploy" and progress.touched:
            proved = [r for r in proved if r != candidate]
            rejected.add(candidate)
    return ReleaseMarks(tuple(proved), frozenset(rejected))


def was_proved(rollouts: Iterable[Progress], release: str) -> bool:
    """Whether `release` was ever promoted for good, be it taken back later."""
    return any(release in release_marks([progress]).proved for progress in rollouts)


def rollback_target(
    newest_first: Iterable[Progress], serving: str | None, existing: Sequence[str]
) -> str | None:
    """The release that a bare `opsctl rollback` goes to: the last proved one that still exists.

    Going backwards the first word on a release is its last, so the search ends early.
    """
    judged: set[str] = set()
    for progress in newest_first:
        marks = release_marks([progress])
        for release in reversed(marks.proved):
            if release not in judged and release != serving and release in existing:
                return release
        judged |= {*marks.proved, *marks.rejected}
    return None


def warm_share(base: str, replicas: int, retire_at: float) -> Share:
    """The old release during its rollback window: running, no traffic, retired by itself."""
    return Share(base, replicas, 0, retire_at=retire_at)
