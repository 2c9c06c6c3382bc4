"""What each kind of step does. One function a kind, one row a kind in ACTIONS.

A step may be taken twice (a crash in its middle is no special case), so each one first puts its
desired state in force and then looks at what is there.
"""

from __future__ import annotations

from collections.abc import Callable

from opsctl import trials
from opsctl.checks.front_door import prove_serving, safe_request
from opsctl.errors import (
    HealthFailed,
    RollbackFailed,
    WaitingForPerson,
)
from opsctl.model import DesiredState, Json, LiveLimits
from opsctl.rollout import warm_share
from opsctl.scene import (
    POLL_S,
    Scene,
    Turn,
    healthy,
    hide,
    ordered,
    put_in_force,
    settle,
)
from opsctl.secrets import resolve_secrets

PROOF_LIMIT_S = 30.0
"""How long the front door may take until only the old release answers."""

LOG_LINES = 200
"""Log lines of a failed candidate that a report keeps."""

Action = Callable[[Scene, Turn], Json]


def act(scene: Scene, turn: Turn) -> Json:
    """Take the step; returns what its `passed` record keeps."""
    return ACTIONS[turn.step.kind](scene, turn)


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
    trials.check_queries(scene, turn)
    _check_load(scene, turn)
    return {"findings": [finding.to_dict() for finding in findings]}


def _check_load(scene: Scene, turn: Turn) -> None:
    """A gate whose requests go by gRPC, which needs a library, and bodies of the right types."""
    service, base = scene.project.service, turn.progress.base
    if service.bench is None or not service.gate.enabled or service.bench.protocol != "grpc":
        return
    from opsctl.bench import check_grpc

    arms = scene.target.endpoints(base)[:1] if base else ()
    check_grpc(service.bench, scene.project.root, arms)


def _replicas(state: DesiredState) -> int:
    return sum(share.replicas for share in state.shares)


def _build(scene: Scene, turn: Turn) -> Json:
    values = resolve_secrets(
        scene.project.service.app.secrets, scene.project.root, scene.attendance.interrupt
    )
    hide(scene.console, {f"{turn.candidate} {name}": value for name, value in values.items()})
    scene.secrets.save(turn.candidate, values)
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


def _start(scene: Scene, turn: Turn) -> Json:
    state = ordered(turn)
    put_in_force(scene, turn, state)
    report = healthy(scene, turn.candidate, turn.step.params["replicas"])
    return {"health": report}


def _shift(scene: Scene, turn: Turn) -> Json:
    from opsctl.checks.live import Trial, watch_live

    put_in_force(scene, turn, ordered(turn))
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
    put_in_force(scene, turn, ordered(turn))
    settle(scene, needed=ordered(turn).serving_release)
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
    state = ordered(turn)
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
    state = ordered(turn)
    put_in_force(scene, turn, state)
    observed = settle(scene, needed=turn.progress.base)
    if turn.candidate != turn.progress.base and state.weight(turn.candidate) == 0:
        return {"candidate_weight": observed.desired.weight(turn.candidate)}
    return {}


def _prove(scene: Scene, turn: Turn) -> Json:
    base = turn.step.params["release"]
    share = ordered(turn).share(base)
    put_in_force(scene, turn, ordered(turn))
    try:
        health = healthy(scene, base, share.replicas if share else 1, forgiving=True)
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
    put_in_force(scene, turn, ordered(turn), unattended=True)
    settle(scene, needed=ordered(turn).serving_release)
    return {}


ACTIONS: dict[str, Action] = {
    "preflight": _preflight,
    "build": _build,
    "start": _start,
    "smoke": trials.smoke,
    "gate": trials.gate,
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
