"""What each kind of step does. One function a kind, one row a kind in ACTIONS.

A step may be taken twice (a crash in its middle is no special case), so each one first puts its
desired state in force and then looks at what is there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from opsctl.attendance import Attendance
from opsctl.checks.front_door import prove_serving, safe_request
from opsctl.checks.health import HealthGoal, wait_until_healthy
from opsctl.clock import Clock
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import (
    CandidateFailed,
    GateFailed,
    GateUndecided,
    HealthFailed,
    RollbackFailed,
    WaitingForPerson,
)
from opsctl.model import DesiredState, Guard, Json, LiveLimits, Observed, Role, Stamp
from opsctl.plan import Step
from opsctl.redact import Redactor
from opsctl.releases import ReleaseStore
from opsctl.rollout import Progress, safe_state, warm_share
from opsctl.secrets import SecretStore, resolve_secrets
from opsctl.targets.target import Target
from opsctl.wait import Wait

POLL_S = 0.02
"""How often a wait looks at the target; a switch must not wait for the look."""

SETTLE_MARGIN_S = 15.0
"""What stopping and draining may take beyond the limits that opsctl.yaml sets."""

PROOF_LIMIT_S = 30.0
"""How long the front door may take until only the old release answers."""

LOG_LINES = 200
"""Log lines of a failed candidate that a report keeps."""


@dataclass(frozen=True)
class Scene:
    """All that a step needs to act."""

    project: Project
    target: Target
    store: ReleaseStore
    attendance: Attendance
    console: Console
    clock: Clock
    actor: str
    artifacts: Path
    """Folder of this rollout's gate and log files."""

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


Action = Callable[[Scene, Turn], Json]


def act(scene: Scene, turn: Turn) -> Json:
    """Take the step; returns what its `passed` record keeps."""
    return ACTIONS[turn.step.kind](scene, turn)


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
    )
    scene.target.apply(state, turn.stamp, guard)
    scene.attendance.epoch = turn.stamp.epoch


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


def _preflight(scene: Scene, turn: Turn) -> Json:
    from opsctl.checks.preflight import preflight as run_preflight
    from opsctl.checks.preflight import refuse_on

    plan_states = [step.state for step in turn.progress.plan if step.state]
    fullest = max(plan_states, key=_replicas, default=DesiredState())
    findings = run_preflight(scene.project, scene.target, scene.store, fullest)
    for finding in findings:
        if finding.status == "warn":
            scene.console.warn(finding.what)
    refuse_on(findings)
    return {"findings": [finding.to_dict() for finding in findings]}


def _replicas(state: DesiredState) -> int:
    return sum(share.replicas for share in state.shares)


def _build(scene: Scene, turn: Turn) -> Json:
    values = resolve_secrets(
        scene.project.service.app.secrets, scene.project.root, scene.attendance.interrupt
    )
    hide(scene.console, {f"{turn.candidate} {name}": value for name, value in values.items()})
    SecretStore(scene.project.service_dir).save(turn.candidate, values)
    names = {release.name for release in scene.store.list()}
    if turn.candidate in names:
        return {"release": turn.candidate, "digest": scene.store.get(turn.candidate).digest}
    release = scene.store.build(
        scene.project,
        turn.candidate,
        actor=scene.actor,
        tell=scene.console.tell,
        interrupt=scene.attendance.interrupt,
    )
    return {"release": release.name, "digest": release.digest}


def hide(console: Console, secrets: Mapping[str, str]) -> None:
    """From now on no output shows any of `secrets`, besides those hidden before."""
    known = console.redact.secrets if console.redact else {}
    console.redact = Redactor({**known, **secrets})
    for warning in Redactor(secrets).warnings:
        console.warn(warning)


def _start(scene: Scene, turn: Turn) -> Json:
    state = _ordered(turn)
    put_in_force(scene, turn, state)
    report = _healthy(scene, turn.candidate, turn.step.params["replicas"])
    return {"health": report}


def _healthy(
    scene: Scene, release: str, replicas: int, role: Role = "serving", *, forgiving: bool = False
) -> Json:
    health = scene.project.service.health
    goal = HealthGoal(release, replicas, health, role, forgiving)
    return wait_until_healthy(scene.target, goal, scene.wait).to_dict()


def _smoke(scene: Scene, turn: Turn) -> Json:
    from opsctl.checks.smoke import run_smoke

    put_in_force(scene, turn, _ordered(turn))
    _healthy(scene, turn.candidate, _count(turn))
    results = run_smoke(
        scene.target,
        scene.store.get(turn.candidate),
        scene.project.service.smoke,
        scene.project.root,
        scene.attendance.interrupt,
    )
    return {"smoke": [result.to_dict() for result in results]}


def _gate(scene: Scene, turn: Turn) -> Json:
    if turn.step.id in turn.progress.approved:
        return {"outcome": "approved by a person"}
    report = _measure(scene, turn, attempt=1)
    confirm = scene.project.service.gate.confirm and turn.step.params["baseline"]
    if report["outcome"] == "fail" and confirm:
        scene.console.tell("regression seen; measuring again with fresh processes to confirm")
        put_in_force(scene, turn, _ordered(turn).without_baselines())
        settle(scene)
        again = _measure(scene, turn, attempt=2)
        if again["outcome"] != "fail":
            reason = f"not confirmed: {report['reason']}; then {again['reason']}"
            report = {**again, "outcome": "inconclusive", "reason": reason}
        else:
            report = again
    return _judge(scene, report)


def _measure(scene: Scene, turn: Turn, attempt: int) -> Json:
    """One benchmark of the candidate, against a fresh copy of the base when there is one."""
    from opsctl.bench import GateRequest, run_gate

    service = scene.project.service
    base = turn.step.params["baseline"]
    put_in_force(scene, turn, _ordered(turn))
    _healthy(scene, turn.candidate, _count(turn))
    if base:
        _healthy(scene, base, 1, role="baseline")
    observed = scene.target.observe()
    candidate = scene.target.endpoints(turn.candidate)[0]
    baseline = scene.target.endpoints(base, "baseline")[0] if base else None
    assert service.bench is not None
    request = GateRequest(
        baseline=baseline,
        candidate=candidate,
        bench=service.bench,
        gate=service.gate,
        root=scene.project.root,
        seed=_seed(scene, turn, attempt),
        client_cpus=_client_cpus(turn),
        baseline_pid=observed.of(base, "baseline")[0].pid if base else 0,
        candidate_pid=observed.of(turn.candidate)[0].pid,
        progress_path=scene.artifacts / f"gate-{attempt}.partial.jsonl",
    )
    scene.artifacts.mkdir(parents=True, exist_ok=True)
    report: Json = run_gate(
        request, tell=scene.console.tell, interrupt=scene.attendance.interrupt
    ).to_dict()
    (scene.artifacts / f"gate-{attempt}.json").write_text(json.dumps(report, indent=1))
    return report


def _seed(scene: Scene, turn: Turn, attempt: int) -> int:
    """The configured seed, else one made of the step's stamp: another each time, and recorded."""
    bench = scene.project.service.bench
    if bench and bench.seed is not None:
        return bench.seed + attempt - 1
    return int(turn.stamp.digest[:8], 16) + attempt


def _client_cpus(turn: Turn) -> tuple[int, ...]:
    """The CPUs that the two arms leave to the load generator."""
    import os

    arms = set(turn.step.params["cpus"])
    return tuple(sorted(os.sched_getaffinity(0) - arms)) if arms else ()


def _judge(scene: Scene, report: Json) -> Json:
    outcome, reason = report["outcome"], report["reason"]
    if outcome == "pass":
        return {"gate": {"outcome": outcome, "reason": reason, "seed": report["seed"]}}
    see = f" The figures: {scene.artifacts}"
    if outcome == "fail":
        raise GateFailed(
            "the benchmark gate failed", why=reason, next_step=f"Repair it, then deploy again.{see}"
        )
    if scene.project.service.gate.on_inconclusive == "pause":
        raise WaitingForPerson(
            f"the gate is {outcome}: {reason}",
            next_step="Run: opsctl approve (go on), opsctl resume (measure again) or opsctl abort",
        )
    raise GateUndecided(
        f"the benchmark gate is {outcome}",
        why=reason,
        next_step=f"Deploy again on a quieter machine, or give gate.budget_s more.{see}",
    )


def _shift(scene: Scene, turn: Turn) -> Json:
    from opsctl.checks.live import Trial, watch_live

    put_in_force(scene, turn, _ordered(turn))
    settle(scene, needed=turn.candidate)
    strategy = scene.project.service.strategy
    trial = Trial(
        turn.candidate,
        LiveLimits(strategy.max_error_rate, strategy.min_requests),
        turn.step.params["hold_s"],
        safe_request(scene.project.service, scene.project.root),
    )
    live = watch_live(scene.target, trial, scene.wait)
    return {"live": live.to_dict()}


def _stop(scene: Scene, turn: Turn) -> Json:
    put_in_force(scene, turn, _ordered(turn))
    settle(scene, needed=_ordered(turn).serving_release)
    return {}


def _approval(scene: Scene, turn: Turn) -> Json:
    if turn.step.id in turn.progress.approved:
        return {"approved": True}
    raise WaitingForPerson(
        f"waiting for approval: {turn.step.params['for']}",
        next_step="Run: opsctl approve (or opsctl abort)",
    )


def _pause(scene: Scene, turn: Turn) -> Json:
    raise WaitingForPerson("paused", next_step="Run: opsctl resume (or opsctl abort)")


def _drain(scene: Scene, turn: Turn) -> Json:
    """The old release's requests finish; then it stays warm for the rollback window, or stops."""
    state = _ordered(turn)
    base, warm_s = turn.step.params["base"], turn.step.params["warm_s"]
    old = turn.progress.before.share(base) if base else None
    if old and warm_s and old.replicas:
        retire_at = scene.clock.now() + warm_s
        state = state.put(warm_share(base, old.replicas, retire_at))
    put_in_force(scene, turn, state, unattended=True)
    settle(scene, needed=turn.candidate)
    _wait_for_requests(scene, base)
    return {"state": state.to_dict()}


def _wait_for_requests(scene: Scene, release: str | None) -> None:
    """Wait until the balancer has no request left with `release`, at most the drain time limit."""
    deadline = scene.clock.monotonic() + scene.project.service.strategy.drain_timeout_s
    while release and scene.clock.monotonic() < deadline:
        if scene.target.observe().traffic_of(release).in_flight == 0:
            return
        scene.attendance.interrupt()
        scene.clock.sleep(POLL_S)


def _restore(scene: Scene, turn: Turn) -> Json:
    state = _ordered(turn)
    put_in_force(scene, turn, state)
    observed = settle(scene, needed=turn.progress.base)
    if turn.candidate != turn.progress.base and state.weight(turn.candidate) == 0:
        return {"candidate_weight": observed.desired.weight(turn.candidate)}
    return {}


def _prove(scene: Scene, turn: Turn) -> Json:
    base = turn.step.params["release"]
    share = _ordered(turn).share(base)
    put_in_force(scene, turn, _ordered(turn))
    try:
        health = _healthy(scene, base, share.replicas if share else 1, forgiving=True)
        request = safe_request(scene.project.service, scene.project.root)
        probes = prove_serving(scene.target, base, request, scene.wait, PROOF_LIMIT_S)
    except HealthFailed as error:
        raise RollbackFailed(
            f"{base} could not be proved healthy",
            why=str(error),
            next_step="Page someone. Then: opsctl health, opsctl logs, opsctl rollback RELEASE",
        ) from error
    return {"health": health, "probes": probes.to_dict()}


def _collect(scene: Scene, turn: Turn) -> Json:
    """Save what the candidate said before it is removed."""
    scene.artifacts.mkdir(parents=True, exist_ok=True)
    clean = scene.console.clean
    logs = [clean(line) for line in scene.target.logs(turn.candidate, lines=LOG_LINES)]
    events = [clean(line) for line in scene.target.events(turn.candidate)]
    (scene.artifacts / f"{turn.candidate}.log").write_text("\n".join(logs))
    (scene.artifacts / f"{turn.candidate}.events").write_text("\n".join(events))
    return {"log_lines": logs[-20:], "events": events[-20:]}


def _remove(scene: Scene, turn: Turn) -> Json:
    put_in_force(scene, turn, _ordered(turn), unattended=True)
    settle(scene, needed=_ordered(turn).serving_release)
    return {}


def _ordered(turn: Turn) -> DesiredState:
    assert turn.step.state is not None, turn.step.kind
    return turn.step.state


def _count(turn: Turn) -> int:
    share = _ordered(turn).share(turn.candidate)
    return share.replicas if share else 0


ACTIONS: dict[str, Action] = {
    "preflight": _preflight,
    "build": _build,
    "start": _start,
    "smoke": _smoke,
    "gate": _gate,
    "shift": _shift,
    "promote": _shift,
    "stop": _stop,
    "approval": _approval,
    "pause": _pause,
    "drain": _drain,
    "restore": _restore,
    "prove": _prove,
    "collect": _collect,
    "remove": _remove,
}


def without_trial(scene: Scene, turn: Turn) -> DesiredState:
    """The state that must be in force when this command stops in the middle of a step."""
    return safe_state(turn.progress, turn.progress.current)


def best_effort(scene: Scene, turn: Turn, state: DesiredState) -> None:
    """Order the safe state while this command is on its way out; the guard does it otherwise."""
    progress = replace(turn.progress, state=state)
    put_in_force(scene, replace(turn, progress=progress), state, unattended=True)
