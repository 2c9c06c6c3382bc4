"""Where steps act: what they need, and how a desired state is put in force and waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from opsctl.attendance import Attendance
from opsctl.checks.health import HealthGoal, wait_until_healthy
from opsctl.clock import Clock
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import (
    CandidateFailed,
    HealthFailed,
)
from opsctl.model import DesiredState, Guard, Json, LiveLimits, Observed, Role, Stamp
from opsctl.plan import Step
from opsctl.redact import Redactor
from opsctl.release_store import ReleaseStore
from opsctl.rollout import Progress, safe_state
from opsctl.secrets import SecretStore
from opsctl.targets.target import RemoteGate, Target
from opsctl.wait import Wait

POLL_S = 0.02
"""How often a wait looks at the target; a switch must not wait for the look."""

SETTLE_MARGIN_S = 15.0
"""What stopping and draining may take beyond the limits that opsctl.yaml sets."""


@dataclass(frozen=True)
class Scene:
    """All that a step needs to act."""

    project: Project
    target: Target
    store: ReleaseStore
    secrets: SecretStore
    attendance: Attendance
    console: Console
    clock: Clock
    actor: str
    artifacts: Path
    """Folder of this rollout's gate and log files."""
    gate_there: RemoteGate | None = None
    """Runs the benchmark gate next to the replicas, where the target has such a place."""

    @property
    def wait(self) -> Wait:
        return Wait(self.clock, self.console.tell, self.attendance.interrupt)


@dataclass(frozen=True)
class Turn:
    """One taking of a step: what the journal says so far, and the stamp of its `began` record."""

    step: Step
    progress: Progress
    stamp: Stamp

    @property
    def candidate(self) -> str:
        return self.progress.candidate


def put_in_force(
    scene: Scene, turn: Turn, state: DesiredState, *, unattended: bool = False
) -> None:
    """Order `state`, with the guard that watches while it is in force."""
    strategy = scene.project.service.strategy
    on_trial = None if turn.progress.promoted else turn.candidate
    guard = Guard(
        safe=safe_state(turn.progress, state),
        unattended=unattended,
        on_trial=on_trial,
        limits=LiveLimits(strategy.max_error_rate, strategy.min_requests),
        interim=not unattended and _is_on_the_way_back(turn),
    )
    scene.target.apply(state, turn.stamp, guard)
    scene.attendance.epoch = turn.stamp.epoch


def _is_on_the_way_back(turn: Turn) -> bool:
    """Whether the step gives traffic back: what was left is stopped in a step of its own."""
    rollback = turn.progress.op == "rollback" and turn.step.kind == "promote"
    return rollback or turn.step.kind in ("restore", "prove")


def settle_limit_s(scene: Scene) -> float:
    """The longest that stopping, draining and starting may take by opsctl.yaml's own limits."""
    service = scene.project.service
    return (
        service.strategy.drain_timeout_s
        + service.app.stop_timeout_s
        + service.health.tries * service.health.interval_s
        + SETTLE_MARGIN_S
    )


def settle(scene: Scene, *, needed: str | None = None) -> Observed:
    """Wait until traffic flows as ordered, nothing else runs, and `needed` is ready.

    Replicas of other releases need not be ready: an ill candidate must not hold up its own
    removal. Raises HealthFailed when a replica of `needed` does not stay up.
    """
    limit_s = settle_limit_s(scene)
    deadline = scene.clock.monotonic() + limit_s
    while True:
        observed = scene.target.observe()
        if is_settled(observed, needed):
            return observed
        scene.attendance.interrupt()
        _require_hope(observed, needed)
        if scene.clock.monotonic() > deadline:
            raise HealthFailed(
                f"the target did not settle within {limit_s:.0f} s",
                why=_unsettled(observed),
                next_step="See opsctl logs and opsctl health, then deploy again",
            )
        scene.clock.sleep(POLL_S)


def is_settled(observed: Observed, needed: str | None) -> bool:
    """Whether what runs is what was ordered, as far as users and `needed` are concerned."""
    desired = observed.desired
    ordered = {share.release: share.weight for share in desired.shares if share.weight}
    counts = Counter((replica.release, replica.role) for replica in observed.replicas)
    wanted = Counter({(share.release, share.role): share.replicas for share in desired.shares})
    share = desired.share(needed) if needed else None
    ready = sum(replica.phase == "ready" for replica in observed.of(needed)) if needed else 0
    return (
        not observed.guarded
        and observed.weights == ordered
        and counts <= wanted
        and (share is None or ready >= share.replicas)
        and (observed.balancer_up or not ordered)
    )


def _require_hope(observed: Observed, needed: str | None) -> None:
    for replica in observed.of(needed) if needed else ():
        if replica.phase == "crash_loop":
            raise HealthFailed(
                f"{replica.name} does not stay up",
                why=replica.reason,
                next_step=f"See: opsctl logs {replica.release}",
            )
    if observed.guarded:
        raise CandidateFailed(
            "the guard took over",
            why=observed.guard_reason,
            next_step="See opsctl logs and opsctl health, then deploy again",
        )


def _unsettled(observed: Observed) -> str:
    """What is not yet as ordered, in words."""
    traffic = ", ".join(f"{release} {weight} %" for release, weight in observed.weights.items())
    phases = (f"{r.name} is {r.phase} {r.reason}".rstrip() for r in observed.replicas)
    return "; ".join([f"traffic: {traffic or 'none'}", *phases])


def hide(console: Console, secrets: Mapping[str, str]) -> None:
    """From now on no output shows any of `secrets`, besides those hidden before."""
    known = console.redact.secrets if console.redact else {}
    console.redact = Redactor({**known, **secrets})
    for warning in Redactor(secrets).warnings:
        console.warn(warning)


def healthy(
    scene: Scene, release: str, replicas: int, role: Role = "serving", *, forgiving: bool = False
) -> Json:
    """Wait for `replicas` healthy replicas; the report of it. Raises HealthFailed."""
    health = scene.project.service.health
    goal = HealthGoal(release, replicas, health, role, forgiving)
    return wait_until_healthy(scene.target, goal, scene.wait).to_dict()


def ordered(turn: Turn) -> DesiredState:
    """The desired state that the step puts in force."""
    assert turn.step.state is not None, turn.step.kind
    return turn.step.state


def count_of(turn: Turn) -> int:
    """Replicas of the candidate in that state."""
    share = ordered(turn).share(turn.candidate)
    return share.replicas if share else 0


def without_trial(scene: Scene, turn: Turn) -> DesiredState:
    """The state that must be in force when this command stops in the middle of a step."""
    return safe_state(turn.progress, turn.progress.current)


def best_effort(scene: Scene, turn: Turn, state: DesiredState) -> None:
    """Order the safe state while this command is on its way out; the guard does it otherwise."""
    progress = replace(turn.progress, state=state)
    put_in_force(scene, replace(turn, progress=progress), state, unattended=True)
