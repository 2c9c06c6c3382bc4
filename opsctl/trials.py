"""The trials of a candidate before any user meets it: smoke tests and the benchmark gate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opsctl.errors import (
    GateFailed,
    GateUndecided,
    HealthFailed,
    WaitingForPerson,
)
from opsctl.model import Endpoint, Json, Observed, Replica, Role
from opsctl.scene import Scene, Turn, count_of, healthy, hide, ordered, put_in_force, settle
from opsctl.secrets import resolve_one

if TYPE_CHECKING:
    from opsctl.bench import GateRequest


def smoke(scene: Scene, turn: Turn) -> Json:
    """All smoke tests against every replica of the candidate. Raises SmokeFailed."""
    from opsctl.checks.smoke import run_smoke

    put_in_force(scene, turn, ordered(turn))
    healthy(scene, turn.candidate, count_of(turn))
    results = run_smoke(
        scene.target,
        scene.store.get(turn.candidate),
        scene.project.service.smoke,
        scene.project.root,
        scene.attendance.interrupt,
    )
    return {"smoke": [result.to_dict() for result in results]}


def gate(scene: Scene, turn: Turn) -> Json:
    """Measure, confirm a regression, judge. Raises GateFailed, GateUndecided, WaitingForPerson."""
    if turn.step.id in turn.progress.approved:
        return {"outcome": "approved by a person"}
    report = _measure(scene, turn, attempt=1)
    confirm = scene.project.service.gate.confirm and turn.step.params["baseline"]
    if report["outcome"] == "fail" and confirm:
        scene.console.tell("regression seen; measuring again with fresh processes to confirm")
        put_in_force(scene, turn, ordered(turn).without_baselines())
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
    from opsctl.bench import GateRequest

    service = scene.project.service
    base = turn.step.params["baseline"]
    put_in_force(scene, turn, ordered(turn))
    healthy(scene, turn.candidate, count_of(turn))
    if base:
        healthy(scene, base, 1, role="baseline")
    observed = scene.target.observe()
    candidate = _arm(observed, turn.candidate, "serving")
    baseline = _arm(observed, base, "baseline") if base else None
    assert service.bench is not None
    request = GateRequest(
        baseline=_way_to(scene, baseline) if baseline else None,
        candidate=_way_to(scene, candidate),
        bench=service.bench,
        gate=service.gate,
        root=scene.project.root,
        seed=_seed(scene, turn, attempt),
        client_cpus=_client_cpus(turn),
        baseline_pid=baseline.pid if baseline else 0,
        candidate_pid=candidate.pid,
        progress_path=scene.artifacts / f"gate-{attempt}.partial.jsonl",
        prometheus_token=_prometheus_token(scene),
    )
    scene.artifacts.mkdir(parents=True, exist_ok=True)
    report = _report(scene, request)
    (scene.artifacts / f"gate-{attempt}.json").write_text(json.dumps(report, indent=1))
    return report


def _report(scene: Scene, request: GateRequest) -> Json:
    """What the gate finds, next to the replicas where that can be."""
    from opsctl.bench import run_gate
    from opsctl.bench.remote import fits

    tell, interrupt = scene.console.tell, scene.attendance.interrupt
    if scene.gate_there is not None and fits(request.gate):
        return scene.gate_there(request, tell=tell, interrupt=interrupt)
    return run_gate(request, tell=tell, interrupt=interrupt).to_dict()


def _prometheus_token(scene: Scene) -> str:
    """The bearer token of the gate's queries, which no output shows from now on."""
    prometheus = scene.project.service.gate.prometheus
    if prometheus is None or prometheus.token is None:
        return ""
    name = "gate.prometheus.token"
    token = resolve_one(name, prometheus.token, scene.project.root)
    hide(scene.console, {name: token})
    return token


def check_queries(scene: Scene, turn: Turn) -> None:
    """Before anything is touched: queries of `gate.prometheus` that can't be answered. Raises
    ConfigError. Without an old release metrics may be new, so only the language is checked."""
    gate = scene.project.service.gate
    if gate.prometheus is None or not gate.enabled or scene.project.service.bench is None:
        return
    from opsctl.bench import QueryCheck, check_prometheus

    base = turn.progress.base
    arms = tuple(scene.target.endpoints(base)[:1]) if base else ()
    check_prometheus(
        QueryCheck(gate.prometheus, scene.project.root, _prometheus_token(scene), arms),
        tell=scene.console.warn,
        interrupt=scene.attendance.interrupt,
    )


def _arm(observed: Observed, release: str, role: Role) -> Replica:
    """A ready replica to measure. Raises HealthFailed when it died since it was proved healthy."""
    for replica in observed.of(release, role):
        if replica.phase == "ready":
            return replica
    reasons = [f"{r.name} is {r.phase}: {r.reason}" for r in observed.of(release, role)]
    raise HealthFailed(
        f"{release} has no ready replica to measure",
        why="; ".join(reasons) or "none is left",
        next_step=f"Look with: opsctl logs {release}",
    )


def _way_to(scene: Scene, replica: Replica) -> Endpoint:
    """Where this machine reaches a replica. Raises HealthFailed when it has just gone."""
    for endpoint in scene.target.endpoints(replica.release, replica.role):
        if endpoint.name == replica.name:
            return endpoint
    raise HealthFailed(
        f"{replica.name} is gone",
        why="it was ready a moment ago",
        next_step=f"Look with: opsctl logs {replica.release}",
    )


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
