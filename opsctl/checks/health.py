"""Waiting until replicas are healthy, and what `opsctl health` finds.

The target probes the replicas and counts streaks; here its observation is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from opsctl.checks.front_door import ask_front_door, safe_request
from opsctl.config.settings import Health, Project
from opsctl.errors import HealthFailed, OpsctlError, TargetUnreachable
from opsctl.model import Finding, Json, Observed, Replica, Role
from opsctl.targets.target import Target
from opsctl.wait import Wait

POLL_S = 0.1
"""An observation is one line over a local socket; a start is noticed at once."""

UNREACHABLE_MAX_S = 10.0
"""A target's resident part that was killed is back within a second or two."""

LOG_LINES = 20
"""Last log lines of a failed replica that the error shows."""

MEMORY_WARN_PERCENT = 90
"""Of the memory limit; the next allocation may be the last."""

CERTIFICATE_TIMEOUT_S = 5.0
"""Of each of the two connections that read it."""

Status = Literal["ok", "warn", "fail", "unknown"]

DEAD_PHASES = ("crash_loop", "exited", "backoff")


@dataclass(frozen=True)
class HealthGoal:
    """What is waited for: `replicas` ready replicas of `release`.

    `forgiving` is for a release that has proved itself before: a single crash is no verdict on
    it, only a crash loop is.
    """

    release: str
    replicas: int
    health: Health = field(default_factory=Health)
    role: Role = "serving"
    forgiving: bool = False

    @property
    def limit_s(self) -> float:
        """Longest wait: all tries, and the time limit of the last one."""
        return self.health.tries * self.health.interval_s + self.health.timeout_s


@dataclass(frozen=True)
class HealthReport:
    """How the replicas became healthy; `duration_s` counts from the beginning of the wait."""

    release: str
    role: Role
    duration_s: float
    observations: int
    replicas: tuple[Replica, ...]

    def to_dict(self) -> Json:
        return {**self.__dict__, "replicas": [replica.to_dict() for replica in self.replicas]}


def wait_until_healthy(target: Target, goal: HealthGoal, wait: Wait) -> HealthReport:
    """Wait for the goal. Raises `HealthFailed` at once for a replica that is beyond hope."""
    begin = wait.clock.monotonic()
    seen: tuple[Replica, ...] = ()
    beat = wait.heartbeat(lambda elapsed: _progress(goal, seen, elapsed))
    observations = 0
    while True:
        wait.interrupt()
        observed = _observe(target, wait)
        observations += 1
        seen = observed.of(goal.release, goal.role)
        _require_hope(target, goal, observed)
        elapsed = wait.clock.monotonic() - begin
        if sum(replica.phase == "ready" for replica in seen) >= goal.replicas:
            return HealthReport(goal.release, goal.role, round(elapsed, 3), observations, seen)
        if elapsed > goal.limit_s:
            raise _too_late(target, goal, seen)
        beat()
        wait.pause(min(POLL_S, goal.health.interval_s))


def check_service(target: Target, project: Project) -> list[Finding]:
    """All that `opsctl health` tells, the worst not first but in order of the request's way."""
    try:
        observed = target.observe()
    except TargetUnreachable as error:
        return [Finding("target", "fail", str(error), "Run: opsctl resume")]
    serving = observed.desired.serving_release
    if serving is None:
        return [Finding("serving", "fail", "no release serves", "Run: opsctl deploy")]
    findings = [_balancer(observed), *_trouble(observed), _converged(observed)]
    if observed.guarded:
        findings.append(
            Finding(
                "guard",
                "warn",
                f"the guard has put the safe state in force: {observed.guard_reason}",
                "Run: opsctl resume (or opsctl abort)",
            )
        )
    for share in observed.desired.shares:
        if share.role == "serving":
            replicas = observed.of(share.release)
            findings.extend(_replicas(share.release, share.replicas, replicas, share.weight))
            findings.extend(_memory(replicas, project.service.resources.memory_mb))
    findings.append(_front_door(target, project, observed))
    findings.extend(_certificate(target))
    return findings


def _observe(target: Target, wait: Wait) -> Observed:
    """An observation; a target that can't be reached for a moment is asked again."""
    begin = wait.clock.monotonic()
    while True:
        try:
            return target.observe()
        except TargetUnreachable:
            if wait.clock.monotonic() - begin > UNREACHABLE_MAX_S:
                raise
            wait.pause(POLL_S)


def _require_hope(target: Target, goal: HealthGoal, observed: Observed) -> None:
    if observed.guarded:
        raise HealthFailed(
            f"{goal.release} was taken off while it started",
            why=f"the target's guard stepped in: {observed.guard_reason}",
            next_step="Run: opsctl resume",
        )
    hopeless = ("crash_loop",) if goal.forgiving else DEAD_PHASES
    for replica in observed.of(goal.release, goal.role):
        if replica.phase in hopeless or (replica.restarts and not goal.forgiving):
            raise HealthFailed(
                f"{replica.name} {_how_it_died(replica)}",
                why=with_logs(target, goal.release, replica.reason or "it told no reason"),
                next_step=f"Repair what it tells of, then deploy again; whole log:"
                f" opsctl logs {goal.release}",
            )


def _how_it_died(replica: Replica) -> str:
    if replica.phase == "crash_loop" and not replica.restarts and replica.exit_code is None:
        return "can not start"  # its image, its secrets or a node for it are missing
    code = "" if replica.exit_code is None else f" with {exit_in_words(replica.exit_code)}"
    if replica.phase == "crash_loop":
        return f"crashes again and again ({replica.restarts} restarts), last{code or ' unknown'}"
    return f"died{code} before it was healthy"


def exit_in_words(code: int) -> str:
    """`exit code 3`, or `signal 9` for a negative one."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def with_logs(target: Target, release: str, reason: str) -> str:
    """The reason, and below it the last log lines of the release."""
    try:
        lines = list(target.logs(release, lines=LOG_LINES))[-LOG_LINES:]
    except OpsctlError as error:
        lines = [f"(no log: {error})"]
    return "\n  ".join([reason, *(lines or ["(its log is empty)"])])


def _too_late(target: Target, goal: HealthGoal, seen: Sequence[Replica]) -> HealthFailed:
    ready = sum(replica.phase == "ready" for replica in seen)
    states = "; ".join(map(_state, seen)) or "no replica was started"
    return HealthFailed(
        f"{ready} of {goal.replicas} replicas of {goal.release} were healthy within"
        f" {goal.limit_s:g} s",
        why=with_logs(target, goal.release, states),
        next_step=f"Look at it with: opsctl logs {goal.release}; more time: health.tries or"
        " health.interval_s in opsctl.yaml",
    )


def _state(replica: Replica) -> str:
    reason = f" ({replica.reason})" if replica.reason else ""
    return f"{replica.name} is {replica.phase}{reason}"


def _progress(goal: HealthGoal, seen: Sequence[Replica], elapsed: float) -> str:
    ready = sum(replica.phase == "ready" for replica in seen)
    others = "; ".join(_state(replica) for replica in seen if replica.phase != "ready")
    head = f"{goal.release}: {ready} of {goal.replicas} replicas healthy"
    return f"{head} after {elapsed:.0f} s of {goal.limit_s:g} s" + (f"; {others}" if others else "")


def _balancer(observed: Observed) -> Finding:
    if observed.balancer_up:
        return Finding("balancer", "ok", f"the balancer is up ({observed.front_url})")
    why = f": {observed.trouble}" if observed.trouble else ""
    return Finding("balancer", "fail", f"the balancer is down{why}", "Run: opsctl resume")


def _trouble(observed: Observed) -> list[Finding]:
    """What the target tries in vain; when the balancer is down that is the reason, told there."""
    if not observed.trouble or not observed.balancer_up:
        return []
    return [Finding("target", "warn", observed.trouble, "It is tried again until it succeeds")]


def _converged(observed: Observed) -> Finding:
    weights = ", ".join(f"{s.release} {s.weight} %" for s in observed.desired.shares if s.weight)
    if observed.converged:
        return Finding("weights", "ok", f"traffic is as desired: {weights}")
    return Finding(
        "weights", "warn", f"not yet as desired ({weights})", "Run: opsctl status; opsctl resume"
    )


def _replicas(release: str, wanted: int, replicas: Sequence[Replica], weight: int) -> list[Finding]:
    findings = []
    # A warm release without traffic that is ill costs a fast rollback, but no user anything.
    worst: Status = "fail" if weight else "warn"
    look = f"Run: opsctl logs {release}"
    for replica in replicas:
        calm: Status = "warn" if replica.restarts else "ok"
        status = calm if replica.phase == "ready" else worst
        said = f"{_state(replica)}, {replica.restarts} restarts"
        next_step = "" if status == "ok" else look
        findings.append(Finding(f"replica {replica.name}", status, said, next_step))
    if len(replicas) < wanted:
        said = f"{len(replicas)} of {wanted} replicas of {release} run"
        findings.append(Finding(f"replicas {release}", worst, said, "Run: opsctl resume"))
    return findings


def _memory(replicas: Sequence[Replica], limit_mb: int | None) -> list[Finding]:
    findings = []
    for replica in replicas:
        used_mb = replica.rss_bytes / (1 << 20)
        if limit_mb and used_mb * 100 >= limit_mb * MEMORY_WARN_PERCENT:
            findings.append(
                Finding(
                    f"memory {replica.name}",
                    "warn",
                    f"{replica.name} uses {used_mb:.0f} MB of {limit_mb} MB",
                    "Raise resources.memory_mb in opsctl.yaml, or look for a leak",
                )
            )
    return findings


def _front_door(target: Target, project: Project, observed: Observed) -> Finding:
    request = safe_request(project.service, project.root)
    answer = ask_front_door(target, request)
    expected = {s.release for s in observed.desired.shares if s.weight}
    if answer.failed:
        return Finding(
            "front door",
            "fail",
            f"{request.method} {request.path} at {observed.front_url}: {answer.what}",
            "Run: opsctl logs, then opsctl rollback if the release is at fault",
        )
    if answer.release not in expected:
        by = answer.release or "somebody else (no release in the answer)"
        said = f"the answer came from {by}, not from {' or '.join(sorted(expected))}"
        return Finding("front door", "fail", said, "Run: opsctl resume")
    return Finding(
        "front door",
        "ok",
        f"{request.method} {request.path} answered {answer.status} from {answer.release}"
        f" in {answer.duration_ms:.0f} ms",
    )


def _certificate(target: Target) -> list[Finding]:
    """Whether users' clients take the certificate that the front door shows."""
    door = target.front_door()
    if not door.tls:
        return []
    from opsctl import certificates

    try:
        shown = certificates.served(door.host, door.port, CERTIFICATE_TIMEOUT_S)
    except OSError as error:
        refused = isinstance(error, certificates.Refused)
        said = f"{door.url} shows none of use: {error}"
        return [Finding("certificate", "fail" if refused else "unknown", said)]
    judged = certificates.judged([shown])
    advice = "" if judged.status == "ok" else "Renew its files, which are put in force as they come"
    return [Finding("certificate", judged.status, judged.what, advice)]
