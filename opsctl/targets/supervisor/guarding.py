"""Whether the guard must put its safe state in force; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsctl.model import Guard, LiveLimits, Replica
from opsctl.targets.supervisor.traffic import Counts

FAILED_PROBES_MAX = 2
"""Readiness probes failed in a row that count as not healthy: one may be an accident."""


@dataclass(frozen=True)
class Trial:
    """The release on trial since it was left alone."""

    traffic: Counts
    restarts: int
    replicas: Sequence[Replica]
    failed_probes: int
    """The most failed readiness probes in a row of any replica that had been ready."""


def lease_reason(guard: Guard, lease_age_s: float) -> str:
    """Why the lease makes the guard act; empty when it need not."""
    if guard.unattended or lease_age_s <= guard.lease_s:
        return ""
    return f"nobody has been in charge for {lease_age_s:.1f} s (limit {guard.lease_s:g} s)"


def trial_reason(release: str, limits: LiveLimits, trial: Trial) -> str:
    """Why the release on trial makes the guard act; empty when it need not."""
    if trial.restarts > limits.restarts_max:
        return f"{release} restarted {trial.restarts} times (limit {limits.restarts_max})"
    broken = [r for r in trial.replicas if r.phase in ("backoff", "crash_loop", "exited")]
    if broken:
        return f"{broken[0].name} is not healthy: {broken[0].reason}"
    if trial.failed_probes >= FAILED_PROBES_MAX:
        sick = next((r for r in trial.replicas if r.phase != "ready"), None)
        return f"{release} is not healthy" + (f": {sick.reason}" if sick else "")
    requests = trial.traffic.requests
    if requests >= max(1, limits.requests_min):
        rate = trial.traffic.errors / requests
        if rate > limits.error_rate_max:
            return (
                f"{release} failed {trial.traffic.errors} of {requests} requests"
                f" ({rate:.1%}, limit {limits.error_rate_max:.1%})"
            )
    return ""
