"""Pure: the steps of a rollout, written down before the first of them is taken.

Each step that touches the target carries the whole desired state that it puts in force, so that a
step can be taken again after a crash without knowing what came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opsctl.config.settings import CanaryStage, Strategy
from opsctl.model import FULL_WEIGHT, DesiredState, Json, Share

BEFORE_TOUCHING = ("preflight", "build")
"""Steps that change nothing on the target: a failure there ends the rollout at once."""


@dataclass(frozen=True)
class Step:
    """One step: what is done (`kind`), with what (`params`), in which desired state."""

    id: str
    kind: str
    title: str
    state: DesiredState | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> Json:
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "state": self.state.to_dict() if self.state else None,
            "params": dict(self.params),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Step:
        state = DesiredState.from_dict(data["state"]) if data["state"] else None
        return cls(data["id"], data["kind"], data["title"], state, data["params"])


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is made from.

    `before` is the desired state in force; `base` the release that serves in it (None at a first
    deploy). `gated` tells whether there is a benchmark, `bench_cpus` which CPUs both arms share.
    """

    candidate: str
    base: str | None
    before: DesiredState
    replicas: int
    strategy: Strategy
    smoke: bool = True
    gated: bool = True
    bench_cpus: tuple[int, ...] = ()


def plan_deploy(request: PlanRequest) -> tuple[Step, ...]:
    """The steps of a deploy by the strategy asked for."""
    head = (
        Step("preflight", "preflight", "check that nothing stands against it"),
        Step("build", "build", f"build release {request.candidate}"),
    )
    body = _BODIES[request.strategy.type] if request.base else _first_deploy
    return (*head, *body(request))


def plan_rollback(request: PlanRequest) -> tuple[Step, ...]:
    """The steps back to `candidate` (a release proved before): no smoke, no benchmark.

    Where there was no room for two releases on the way there, there is none on the way back.
    """
    quick = replace(request, strategy=replace(request.strategy, rollback_window_s=0.0,
                                              promote_approval=False))  # fmt: skip
    there = request.before.share(request.candidate)
    warm = there is not None and there.replicas >= request.replicas
    if request.strategy.type == "recreate" and request.base and not warm:
        return _recreate(replace(quick, smoke=False, gated=False))
    beside = _beside(quick)
    return (_start(quick, beside), *_promote(quick, beside, hold_s=0.0))


def plan_state(state: DesiredState, title: str) -> tuple[Step, ...]:
    """One step that puts `state` in force: after a restart, or for another number of replicas."""
    return (Step("state", "stop", title, state),)


def undo_steps(
    before: DesiredState, base: str | None, candidate: str, current: DesiredState
) -> tuple[Step, ...]:
    """The way back from `current` to `before`: traffic first, proof next, then the candidate.

    Where the candidate stands in the room of replicas of `base`, it goes to make room for them.
    """
    before = before.without_baselines()
    if candidate != base and before.share(candidate) is None:
        old = current.share(candidate)
        kept = before.put(replace(old, weight=0, cpus=())) if old else before
    else:
        kept = before
    away = (
        Step("undo-collect", "collect", f"save logs and events of {candidate}"),
        Step("undo-remove", "remove", f"stop {candidate}", before),
    )
    if base is None:
        return (Step("undo-restore", "restore", f"take {candidate} out of traffic", kept), *away)
    in_their_room = before.share(candidate) is None and _count(current) <= _count(before)
    back = before if in_their_room else kept
    restore = (
        Step("undo-restore", "restore", f"give all traffic back to {base}", back),
        Step("undo-prove", "prove", f"prove that {base} serves", back, {"release": base}),
    )
    if in_their_room:
        return (away[0], *restore, away[1])
    return (*restore, *away)


def _count(state: DesiredState) -> int:
    return sum(share.replicas for share in state.without_baselines().shares)


def _first_deploy(request: PlanRequest) -> tuple[Step, ...]:
    beside = _beside(request)
    return (
        _start(request, beside),
        *_trials(request, beside, baseline=False),
        *_promote(request, beside, hold_s=request.strategy.promote_hold_s),
    )


def _canary(request: PlanRequest) -> tuple[Step, ...]:
    beside = _beside(request)
    stages = [step for stage in request.strategy.stages for step in _stage(request, beside, stage)]
    return (
        _start(request, beside),
        *_trials(request, beside, baseline=True),
        *stages,
        *_promote(request, beside, hold_s=request.strategy.promote_hold_s),
    )


def _blue_green(request: PlanRequest) -> tuple[Step, ...]:
    return _canary(replace(request, strategy=replace(request.strategy, stages=())))


def _rolling(request: PlanRequest) -> tuple[Step, ...]:
    """One more replica of the candidate and one less of the base at a time."""
    beside = _beside(request, replicas=1)
    steps = [_start(request, beside), *_trials(request, beside, baseline=True)]
    total = request.replicas
    steps += [_roll(request, beside, n, remaining=total - n) for n in range(1, total)]
    return (
        *steps,
        *_promote(request, _beside(request), hold_s=request.strategy.promote_hold_s),
    )


def _recreate(request: PlanRequest) -> tuple[Step, ...]:
    """No room for two: an old replica leaves before a new one comes; a single one means downtime.

    Without room for a baseline copy only absolute limits gate.
    """
    assert request.base is not None
    total = request.replicas
    if total == 1:
        gone = request.before.without_baselines().shifted({}).without(request.base)
        alone = gone.put(Share(request.candidate, 1))
        stop = Step("stop", "stop", f"stop {request.base} (downtime begins)", gone)
        return (
            stop,
            _start(request, alone),
            *_trials(request, alone, baseline=False),
            *_promote(request, alone, hold_s=request.strategy.promote_hold_s),
        )
    room = _with_base(request, total - 1)
    first = room.put(Share(request.candidate, 1))
    steps = [
        Step("make-room", "stop", f"stop one replica of {request.base}", room),
        _start(request, first),
        *_trials(request, first, baseline=False),
    ]
    for count in range(1, total):
        steps.append(_roll(request, room, count, remaining=total - count))
        shrunk = _rolled(request, room, count, total - count - 1)
        if total - count - 1:
            steps.append(Step(f"room-{count}", "stop", f"stop one of {request.base}", shrunk))
    without_base = request.before.without_baselines().shifted({}).without(request.base)
    alone = without_base.put(Share(request.candidate, total))
    return (*steps, *_promote(request, alone, hold_s=request.strategy.promote_hold_s))


_BODIES = {
    "canary": _canary,
    "blue-green": _blue_green,
    "rolling": _rolling,
    "recreate": _recreate,
}


def _beside(request: PlanRequest, replicas: int | None = None) -> DesiredState:
    """The state in force plus the candidate without traffic."""
    state = request.before.without_baselines()
    old = state.share(request.candidate)
    weight = old.weight if old else 0
    return state.put(Share(request.candidate, replicas or request.replicas, weight))


def _with_base(request: PlanRequest, replicas: int) -> DesiredState:
    assert request.base is not None
    return request.before.without_baselines().put(Share(request.base, replicas, FULL_WEIGHT))


def _start(request: PlanRequest, state: DesiredState) -> Step:
    share = state.share(request.candidate)
    count = share.replicas if share else request.replicas
    title = f"start {request.candidate} ({count} replica{'s' if count > 1 else ''}, no traffic)"
    return Step("start", "start", title, state, {"release": request.candidate, "replicas": count})


def _trials(request: PlanRequest, state: DesiredState, *, baseline: bool) -> list[Step]:
    """Smoke and gate through private endpoints, before any user meets the candidate."""
    steps = []
    if request.smoke:
        steps.append(Step("smoke", "smoke", f"smoke tests against {request.candidate}", state))
    if request.gated:
        base = request.base if baseline else None
        title = f"benchmark {request.candidate}" + (f" against {base}" if base else "")
        params = {"baseline": base, "cpus": list(request.bench_cpus)}
        steps.append(Step("gate", "gate", title, _gate_state(request, state, base), params))
    return steps


def _gate_state(request: PlanRequest, state: DesiredState, base: str | None) -> DesiredState:
    """Both arms pinned to the same CPUs; the baseline is a fresh copy without users."""
    share = state.share(request.candidate)
    assert share is not None
    state = state.put(replace(share, cpus=request.bench_cpus))
    if base:
        state = state.put(Share(base, 1, role="baseline", cpus=request.bench_cpus))
    return state


def _stage(request: PlanRequest, beside: DesiredState, stage: CanaryStage) -> list[Step]:
    assert request.base is not None
    weights = {request.candidate: stage.weight, request.base: FULL_WEIGHT - stage.weight}
    title = f"{stage.weight} % of traffic to {request.candidate}, watched for {stage.hold_s:g} s"
    params = {"weight": stage.weight, "hold_s": stage.hold_s}
    shift = Step(f"shift-{stage.weight}", "shift", title, beside.shifted(weights), params)
    return [*_approval(f"approve-{stage.weight}", title, stage.approval), shift]


def _approval(step_id: str, what: str, wanted: bool) -> list[Step]:
    if not wanted:
        return []
    return [Step(step_id, "approval", f"wait for approval: {what}", None, {"for": what})]


def _roll(request: PlanRequest, beside: DesiredState, count: int, remaining: int) -> Step:
    state = _rolled(request, beside, count, remaining)
    title = f"{count} of {request.replicas} replicas are {request.candidate}"
    params = {"weight": state.weight(request.candidate), "hold_s": 0.0, "replicas": count}
    return Step(f"roll-{count}", "shift", title, state, params)


def _rolled(request: PlanRequest, state: DesiredState, count: int, remaining: int) -> DesiredState:
    assert request.base is not None
    weight = round(FULL_WEIGHT * count / request.replicas)
    rest = state.shifted({}).without(request.base).without(request.candidate)
    shares = (
        Share(request.base, remaining, FULL_WEIGHT - weight),
        Share(request.candidate, count, weight),
    )
    return DesiredState((*rest.shares, *shares))


def _promote(request: PlanRequest, state: DesiredState, *, hold_s: float) -> list[Step]:
    """All traffic to the candidate; then the old release's connections finish and it stays warm."""
    full = state.shifted({request.candidate: FULL_WEIGHT})
    title = f"all traffic to {request.candidate}"
    params = {"weight": FULL_WEIGHT, "hold_s": hold_s}
    steps = _approval("approve-promote", title, request.strategy.promote_approval)
    steps.append(Step("promote", "promote", title, full, params))
    final = DesiredState((Share(request.candidate, request.replicas, FULL_WEIGHT),))
    warm = request.base is not None and request.strategy.type in ("canary", "blue-green")
    window_s = request.strategy.rollback_window_s if warm else 0.0
    keep = f", keep it warm for {window_s:g} s" if window_s else ""
    if request.base:
        drain = {"base": request.base, "warm_s": window_s, "replicas": request.replicas}
        steps.append(Step("drain", "drain", f"drain {request.base}{keep}", final, drain))
    else:
        steps.append(Step("drain", "drain", "settle", final, {"base": None, "warm_s": 0.0}))
    return steps
