"""THE MAIN PATH: one loop for deploy, resume, abort and rollback.

    read the journal → next step → append `began` → act → append `passed` or `failed` → again

until the journal says `closed`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsctl.errors import (
    BuildFailed,
    CandidateFailed,
    HookFailed,
    Interrupted,
    OpsctlError,
    PreflightRefused,
    RequestArrived,
    Superseded,
    TimedOut,
    WaitingForPerson,
)
from opsctl.hooks import HookContext, HookSettings, When, run_hooks
from opsctl.inbox import Inbox
from opsctl.journal import Journal
from opsctl.model import DesiredState, Json, Stamp
from opsctl.plan import Step
from opsctl.records import FORMAT, Record
from opsctl.rollout import CLOSE, Progress, final_serving, fold, next_step, outcome
from opsctl.scene import Scene, Turn, best_effort, put_in_force, without_trial
from opsctl.steps import act

GATE_EXTRA_S = 120.0
"""What a gate may take beyond its measuring budget: warm-up, starts, confirmation."""

OVERRUNS: Mapping[str, type[OpsctlError]] = {"preflight": PreflightRefused, "build": BuildFailed}
"""How steps fail that run over their time before anything was touched."""


@dataclass(frozen=True)
class Rollout:
    """An open rollout and all that is needed to carry it on."""

    scene: Scene
    journal: Journal
    inbox: Inbox
    expected_s: Mapping[str, float]
    """Seconds that steps took last time, by id: what a progress line shows as time left."""


def run(rollout: Rollout) -> Progress:
    """Carry the open rollout on until it is closed, and return it closed.

    Raises WaitingForPerson, Interrupted, TimedOut or Superseded when this command must leave it
    open; `opsctl resume` goes on from there.
    """
    while True:
        take_requests(rollout)
        progress = read(rollout.journal)
        step = next_step(progress)
        if step is None:
            return progress
        if step.kind != CLOSE:
            take(rollout, step, progress)
        elif close(rollout, progress):  # a request that comes now comes too late
            return read(rollout.journal)


def read(journal: Journal) -> Progress:
    """The newest rollout as the journal tells it."""
    segment = journal.last()
    return fold(segment.records, segment.number)


def take(rollout: Rollout, step: Step, progress: Progress) -> None:
    """Take one step: what is about to be done is on disk before it is done."""
    record = rollout.journal.append("began", {"step": step.to_dict()})
    turn = Turn(step, read(rollout.journal), Stamp(record.epoch, record.seq, record.hash))
    position = _position(step, progress)
    rollout.scene.console.step(step.title, position, rollout.expected_s.get(step.id))
    started = time.monotonic()
    try:
        result = _take_with_hooks(rollout, turn)
    except RequestArrived:
        return
    except WaitingForPerson as error:
        _wait_for_person(rollout, turn, error)
        raise
    except (Interrupted, TimedOut) as error:
        _leave_safely(rollout, turn, error)
        raise
    except Superseded:
        raise
    except OpsctlError as error:
        _failed(rollout, step, error)
        note, elapsed = f"FAILED: {error}", time.monotonic() - started
        rollout.scene.console.step_done(step.title, position, elapsed, note)
        return
    except BaseException as error:
        _leave_safely(rollout, turn, error)
        raise
    elapsed = time.monotonic() - started
    rollout.scene.console.step_done(step.title, position, elapsed)
    state = result.pop("state", None)
    rollout.journal.append(
        "passed",
        {"step": step.id, "result": result, "state": state, "elapsed_s": round(elapsed, 3)},
    )


def close(rollout: Rollout, progress: Progress) -> bool:
    """Write how it ended, unless a request comes first; whether it was written."""
    ended = outcome(progress)
    try:
        ran = hooks(rollout, "after", "deploy", progress, ended["outcome"])
    except RequestArrived:
        return False
    front = front_counters(rollout.scene)
    rollout.journal.append(
        "closed",
        {
            **ended,
            "serving_release": final_serving(progress),
            "front": front,
            "hooks": ran,
            "journal_ms": round(rollout.journal.cost_s * 1000, 2),
        },
    )
    return True


def take_requests(rollout: Rollout) -> None:
    """Move the inbox into the journal."""
    for request in rollout.inbox.items():
        if request.id not in read(rollout.journal).seen_requests:
            rollout.journal.append("requested", request.to_dict())
            rollout.scene.console.tell(f"{request.request} asked for by {request.by}")
        rollout.inbox.remove(request)


def front_counters(scene: Scene) -> Json:
    """Requests and errors that users have had at the front door so far."""
    try:
        observed = scene.target.observe()
    except OpsctlError:
        return {"requests": 0, "errors": 0}
    return {"requests": observed.front_requests, "errors": observed.front_errors}


def hooks(
    rollout: Rollout, when: When, kind: str, progress: Progress, ended: str = ""
) -> list[Json]:
    """Run the project's commands around a step; what they did, for the journal."""
    scene = rollout.scene
    project = scene.project
    context = HookContext(
        service=project.service_name,
        environment=project.environment,
        rollout=progress.rollout,
        step=kind,
        release=progress.candidate,
        base=progress.base,
        outcome=ended,
        actor=scene.actor,
    )
    attendance, console = scene.attendance, scene.console
    # A request can't change a way back; a hook that makes one each time would never end it.
    interrupt = attendance.interrupt_unasked if progress.undoing else attendance.interrupt
    settings = HookSettings(project.root, interrupt, console.tell, console.clean)
    try:
        results = run_hooks(project.service.hooks, when, context, settings)
    except HookFailed as error:
        if not progress.undoing:
            raise
        console.warn(f"{error} (it cannot stop a rollback)")
        return []
    for result in results:
        if result.warning:
            console.warn(f"hook {when} {kind}: {result.warning}")
    return [result.to_dict() for result in results]


def _take_with_hooks(rollout: Rollout, turn: Turn) -> dict[str, Any]:
    kind = "rollback" if turn.step.kind == "restore" else turn.step.kind
    undoing = turn.step.id.startswith("undo-")
    first = not turn.progress.passed and not undoing
    limit_s = None if undoing else _limit_s(rollout, turn.step)
    rollout.scene.attendance.limit_step(limit_s, OVERRUNS.get(kind, CandidateFailed))
    if rollout.journal.low_space and not undoing:
        raise CandidateFailed(
            "the disk is full",
            why="the journal needed its reserve",
            next_step="Free disk space (opsctl releases prune), then deploy again",
        )
    ran = hooks(rollout, "before", "deploy", turn.progress) if first else []
    ran += hooks(rollout, "before", kind, turn.progress)
    result = dict(act(rollout.scene, turn))
    ran += hooks(rollout, "after", kind, turn.progress)
    return {**result, "hooks": ran} if ran else result


def _limit_s(rollout: Rollout, step: Step) -> float:
    service = rollout.scene.project.service
    if step.kind == "gate":
        return max(service.strategy.step_timeout_s, 2 * service.gate.budget_s + GATE_EXTRA_S)
    if step.kind == "build" and service.build is not None:
        return max(service.strategy.step_timeout_s, service.build.timeout_s)
    return service.strategy.step_timeout_s + float(step.params.get("hold_s", 0.0))


def _position(step: Step, progress: Progress) -> str:
    ids = [planned.id for planned in progress.plan]
    if step.id in ids:
        return f"[{ids.index(step.id) + 1}/{len(ids)}]"
    return "[undo]"


def _failed(rollout: Rollout, step: Step, error: OpsctlError) -> None:
    rollout.journal.append("failed", {"step": step.id, "error": error.to_dict()})


def _wait_for_person(rollout: Rollout, turn: Turn, error: WaitingForPerson) -> None:
    """Nobody is in charge from here on: the guard watches the candidate's health and limits."""
    record = rollout.journal.append("waiting", {"step": turn.step.id, "reason": error.what})
    progress = read(rollout.journal)
    if progress.touched:
        stamp = Stamp(record.epoch, record.seq, record.hash)
        state = progress.current.without_baselines()
        waiting = Turn(turn.step, progress, stamp)
        put_in_force(rollout.scene, waiting, state, unattended=True)


def _leave_safely(rollout: Rollout, turn: Turn, error: BaseException) -> None:
    """Take the candidate out of traffic before this command ends; the rollout stays open."""
    number = error.signal_number if isinstance(error, Interrupted) else 0
    record = rollout.journal.append("interrupted", {"signal": number, "why": str(error)})
    if not turn.progress.touched:
        return
    stamp = Stamp(record.epoch, record.seq, record.hash)
    leaving = Turn(turn.step, turn.progress, stamp)
    with contextlib.suppress(OpsctlError):  # unreachable: the guard does it when the lease ends
        best_effort(rollout.scene, leaving, without_trial(rollout.scene, leaving))


@dataclass(frozen=True)
class Opening:
    """What the first record of a rollout says. `before` is the desired state in force."""

    op: str
    candidate: str
    base: str | None
    before: DesiredState
    plan: tuple[Step, ...] = ()

    def to_dict(self) -> Json:
        return {
            "format": FORMAT,
            "op": self.op,
            "candidate": self.candidate,
            "base": self.base,
            "before": self.before.to_dict(),
            "plan": [step.to_dict() for step in self.plan],
        }


def step_times(records: tuple[Record, ...]) -> dict[str, float]:
    """How long the steps of a finished rollout took, by id."""
    return {
        record.data["step"]: record.data["elapsed_s"]
        for record in records
        if record.kind == "passed" and "elapsed_s" in record.data
    }
