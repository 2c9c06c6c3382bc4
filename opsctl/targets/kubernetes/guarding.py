"""Pure: what the resident guard does with an order that nobody is in charge of any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opsctl.model import DesiredState, LiveLimits, Replica
from opsctl.targets.kubernetes.desired import Order

DEAD = ("backoff", "crash_loop", "exited")
ILL_S = 4.0
"""A replica that had been ready may be away so long: one failed probe is no verdict."""


@dataclass(frozen=True)
class Trial:
    """The release on trial since it was left alone."""

    replicas: Sequence[Replica]
    restarts: int
    """Since then."""
    ill_s: float
    """How long not all of its replicas have been ready; 0 when they are."""
    requests: int = 0
    errors: int = 0


def lease_reason(order: Order, age_s: float) -> str:
    """Why the holder's silence makes the guard act; empty when it need not."""
    guard = order.guard
    if guard.unattended or order.guarded or age_s <= guard.lease_s:
        return ""
    return f"nobody has been in charge for {age_s:.1f} s (limit {guard.lease_s:g} s)"


def trial_reason(release: str, limits: LiveLimits, trial: Trial) -> str:
    """Why the release on trial makes the guard act; empty when it need not."""
    if trial.restarts > limits.restarts_max:
        return f"{release} restarted {trial.restarts} times (limit {limits.restarts_max})"
    for replica in trial.replicas:
        if replica.phase in DEAD:
            return f"{replica.name} is not healthy: {replica.reason}"
    if trial.ill_s > ILL_S:
        return f"{release} has not been healthy for {trial.ill_s:.0f} s"
    if trial.requests >= max(1, limits.requests_min):
        rate = trial.errors / trial.requests
        if rate > limits.error_rate_max:
            return (
                f"{release} failed {trial.errors} of {trial.requests} requests"
                f" ({rate:.1%}, limit {limits.error_rate_max:.1%})"
            )
    return ""


def retired(state: DesiredState, now: float) -> DesiredState:
    """`state` less the warm releases whose window is over at unix time `now`."""
    return DesiredState(
        tuple(s for s in state.shares if s.weight or s.retire_at is None or s.retire_at > now)
    )


def off_traffic(current: DesiredState, safe: DesiredState) -> DesiredState | None:
    """What runs, with the traffic as `safe` has it; None when what should serve does not run."""
    weights = {share.release: share.weight for share in safe.shares if share.weight}
    running = {share.release for share in current.shares if share.role == "serving"}
    if not weights.keys() <= running:
        return None
    return DesiredState(
        tuple(
            replace(s, weight=weights.get(s.release, 0) if s.role == "serving" else 0)
            for s in current.shares
        )
    )
