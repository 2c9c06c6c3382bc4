"""The words of the domain as frozen values; no I/O here.

Everything that crosses a boundary (journal, supervisor socket, report) turns into plain JSON by
`to_dict` and back by `from_dict`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Json = dict[str, Any]
Role = Literal["serving", "baseline"]
Phase = Literal["starting", "ready", "unready", "backoff", "crash_loop", "stopping", "exited"]

FULL_WEIGHT = 100
"""All of the users' traffic, in percent."""


def canonical_json(value: object) -> str:
    """The one spelling of a JSON value (sorted keys, no spaces) that digests are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: object) -> str:
    """SHA-256 of a JSON value's canonical spelling, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True)
class Share:
    """One release inside a desired state.

    `weight` is the share of user traffic in percent. Role `baseline` is a copy of a release that
    only the benchmark gate talks to: it never stands in the balancer. `cpus` pins the replicas
    (empty: the service's own setting). `retire_at` (unix seconds) lets the target stop a warm
    release by itself when the rollback window is over.
    """

    release: str
    replicas: int
    weight: int = 0
    role: Role = "serving"
    cpus: tuple[int, ...] = ()
    retire_at: float | None = None

    def to_dict(self) -> Json:
        return {
            "release": self.release,
            "replicas": self.replicas,
            "weight": self.weight,
            "role": self.role,
            "cpus": list(self.cpus),
            "retire_at": self.retire_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Share:
        return cls(
            data["release"],
            data["replicas"],
            data["weight"],
            data["role"],
            tuple(data["cpus"]),
            data["retire_at"],
        )


@dataclass(frozen=True)
class DesiredState:
    """The whole of what should run now. Weights of serving shares sum to 100, or nothing serves."""

    shares: tuple[Share, ...] = ()

    def __post_init__(self) -> None:
        total = sum(share.weight for share in self.shares)
        if total not in (0, FULL_WEIGHT):
            raise ValueError(f"weights sum to {total}, not to 0 or {FULL_WEIGHT}")
        keys = [(share.release, share.role) for share in self.shares]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a release stands twice in {keys}")

    def share(self, release: str, role: Role = "serving") -> Share | None:
        """The share of `release`, or None."""
        for share in self.shares:
            if share.release == release and share.role == role:
                return share
        return None

    def weight(self, release: str) -> int:
        """Percent of user traffic that `release` gets."""
        share = self.share(release)
        return share.weight if share else 0

    @property
    def serving_release(self) -> str | None:
        """The release with the most traffic, None when nothing serves."""
        best = max(self.shares, key=lambda share: share.weight, default=None)
        return best.release if best and best.weight else None

    def without(self, release: str) -> DesiredState:
        """This state less every share of `release` (which must have no traffic)."""
        return DesiredState(tuple(s for s in self.shares if s.release != release))

    def without_baselines(self) -> DesiredState:
        """This state less the gate's baseline copies."""
        return DesiredState(tuple(s for s in self.shares if s.role == "serving"))

    def put(self, share: Share) -> DesiredState:
        """This state with `share` in place of the same release and role (total must stay valid)."""
        rest = tuple(s for s in self.shares if (s.release, s.role) != (share.release, share.role))
        return DesiredState((*rest, share))

    def shifted(self, weights: Mapping[str, int]) -> DesiredState:
        """This state with other traffic weights; releases not named get 0."""
        return DesiredState(
            tuple(
                replace(s, weight=weights.get(s.release, 0) if s.role == "serving" else 0)
                for s in self.shares
            )
        )

    def to_dict(self) -> Json:
        return {"shares": [share.to_dict() for share in self.shares]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DesiredState:
        return cls(tuple(Share.from_dict(share) for share in data["shares"]))


@dataclass(frozen=True, order=True)
class Stamp:
    """Who ordered a state: the writer's epoch, the journal record's sequence, its hash."""

    epoch: int
    sequence: int
    digest: str = ""

    def to_dict(self) -> Json:
        return {"epoch": self.epoch, "sequence": self.sequence, "digest": self.digest}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stamp:
        return cls(data["epoch"], data["sequence"], data["digest"])


@dataclass(frozen=True)
class LiveLimits:
    """Limits on the users' own traffic that a release must keep while it is on trial."""

    error_rate_max: float = 0.01
    requests_min: int = 20
    restarts_max: int = 0

    def to_dict(self) -> Json:
        return {
            "error_rate_max": self.error_rate_max,
            "requests_min": self.requests_min,
            "restarts_max": self.restarts_max,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LiveLimits:
        return cls(data["error_rate_max"], data["requests_min"], data["restarts_max"])


@dataclass(frozen=True)
class Guard:
    """What the target's resident guard does when nobody is in charge any more.

    `safe` is put in force when the holder's lease is older than `lease_s` seconds. With
    `unattended` the rollout waits for a person: no lease is expected, and `safe` is put in force
    when `on_trial` breaks `limits` or is not healthy. `interim` tells of a state on
    the way back that another one follows at once: nothing slow need be done for it alone.
    """

    safe: DesiredState
    lease_s: float = 4.0
    unattended: bool = False
    on_trial: str | None = None
    limits: LiveLimits = LiveLimits()
    interim: bool = False

    def to_dict(self) -> Json:
        return {
            "safe": self.safe.to_dict(),
            "lease_s": self.lease_s,
            "unattended": self.unattended,
            "on_trial": self.on_trial,
            "limits": self.limits.to_dict(),
            "interim": self.interim,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guard:
        return cls(
            DesiredState.from_dict(data["safe"]),
            data["lease_s"],
            data["unattended"],
            data["on_trial"],
            LiveLimits.from_dict(data["limits"]),
            data.get("interim", False),
        )


@dataclass(frozen=True)
class Replica:
    """One replica as the target sees it. `reason` explains a phase that is not `ready`."""

    name: str
    release: str
    role: Role
    phase: Phase
    host: str = ""
    port: int = 0
    health_port: int = 0
    pid: int = 0
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    rss_bytes: int = 0
    ready_streak: int = 0
    """Successful health probes in a row, counted by the target."""

    def to_dict(self) -> Json:
        return dict(self.__dict__)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Replica:
        return cls(**data)


@dataclass(frozen=True)
class Traffic:
    """User traffic of one release since its replicas joined the balancer (counters only grow)."""

    release: str
    requests: int = 0
    errors: int = 0
    """5xx answers and requests that got no answer."""
    retries: int = 0
    in_flight: int = 0

    def to_dict(self) -> Json:
        return dict(self.__dict__)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Traffic:
        return cls(**data)


@dataclass(frozen=True)
class Observed:
    """What really runs: the answer of `Target.observe`.

    `stamp` is that of the last order, `desired` the state in force: the one ordered, or the
    guard's safe state when `guarded` (why, says `guard_reason`). `converged`: replicas, balancer
    and weights are all as desired (warm-up of replicas included): nothing is left to do.
    """

    stamp: Stamp
    desired: DesiredState
    converged: bool
    replicas: tuple[Replica, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    balancer_up: bool = False
    front_url: str = ""
    front_requests: int = 0
    front_errors: int = 0
    """5xx answers that users got at the front door, whoever caused them."""
    guarded: bool = False
    guard_reason: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Percent of user traffic really in force, by release; releases without traffic left out."""
    trouble: str = ""
    """What the target can't do just now, and tries again; empty when all goes well."""

    def of(self, release: str, role: Role = "serving") -> tuple[Replica, ...]:
        """The replicas of a release in a role."""
        return tuple(r for r in self.replicas if r.release == release and r.role == role)

    def traffic_of(self, release: str) -> Traffic:
        """The counters of a release; zeros when the balancer does not know it."""
        return next((t for t in self.traffic if t.release == release), Traffic(release))

    def to_dict(self) -> Json:
        return {
            **self.__dict__,
            "stamp": self.stamp.to_dict(),
            "desired": self.desired.to_dict(),
            "replicas": [replica.to_dict() for replica in self.replicas],
            "traffic": [traffic.to_dict() for traffic in self.traffic],
            "weights": dict(self.weights),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observed:
        # A target of a newer version may tell more than is known here.
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        values["stamp"] = Stamp.from_dict(data["stamp"])
        values["desired"] = DesiredState.from_dict(data["desired"])
        values["replicas"] = tuple(Replica.from_dict(r) for r in data["replicas"])
        values["traffic"] = tuple(Traffic.from_dict(t) for t in data["traffic"])
        return cls(**values)


@dataclass(frozen=True)
class Endpoint:
    """Where one replica (or the front door) answers."""

    host: str
    port: int
    health_port: int = 0
    tls: bool = False
    name: str = ""

    @property
    def url(self) -> str:
        """Base URL without a trailing slash."""
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"


@dataclass(frozen=True)
class Finding:
    """One result of a check: `ok`, `warn`, `fail`, or `unknown` when it could not be told."""

    check: str
    status: Literal["ok", "warn", "fail", "unknown"]
    what: str
    next_step: str = ""

    def to_dict(self) -> Json:
        return dict(self.__dict__)
