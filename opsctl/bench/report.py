"""What a benchmark asks for and what it answers: plain values, JSON by `to_dict`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from opsctl.config import settings
from opsctl.model import Endpoint, Json

Outcome = Literal["pass", "fail", "inconclusive", "no_data"]

FORMAT = 1
"""Version of the JSON form of gate and benchmark reports."""


@dataclass(frozen=True)
class GateRequest:
    """One gate: the arms, their load and the rules.

    `baseline` None means a first deploy: only absolute limits judge. `root` is the folder that
    `bench.requests_file` starts from. `client_cpus` pins the load generator (empty: not pinned).
    The pids (0: unknown) are the servers whose CPU time is measured, children included. With
    `progress_path` each round is kept there as a JSON line while the gate runs, so that an
    interrupted one leaves its data (see `opsctl.bench.raw`).
    """

    baseline: Endpoint | None
    candidate: Endpoint
    bench: settings.Bench
    gate: settings.Gate
    root: Path
    seed: int
    client_cpus: tuple[int, ...] = ()
    baseline_pid: int = 0
    candidate_pid: int = 0
    progress_path: Path | None = None
    prometheus_token: str = field(default="", repr=False)
    """The resolved `gate.prometheus.token`."""


@dataclass(frozen=True)
class QueryCheck:
    """Queries to check before a deploy. `arms`: a replica of the old release, if one runs."""

    prometheus: settings.Prometheus
    root: Path
    token: str = field(default="", repr=False)
    arms: tuple[Endpoint, ...] = ()


@dataclass(frozen=True)
class BenchRequest:
    """One benchmark of one arm. `seconds_a_size` of open load for each batch size.

    `gate` has the rules by which a measurement is worth nothing; with `progress_path` each request
    is kept there while it runs, and what an interrupted one leaves is not overwritten.
    """

    endpoint: Endpoint
    bench: settings.Bench
    root: Path
    seed: int
    seconds_a_size: float = 5.0
    client_cpus: tuple[int, ...] = ()
    pid: int = 0
    release: str = ""
    """Named in the report, for histories and comparisons."""
    gate: settings.Gate = field(default_factory=settings.Gate)
    progress_path: Path | None = None


@dataclass(frozen=True)
class Verdict:
    """What was decided, the kind of reason, the reason in one sentence, the metric behind it."""

    outcome: Outcome
    kind: str
    """regression, errors, slo, proved, environment, power, unsettled, or no_answer."""
    reason: str
    metric: str = ""


@dataclass(frozen=True)
class ArmFigures:
    """One arm at one batch size. Latencies are milliseconds from the scheduled time."""

    requests: int
    errors: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    mean_ms: float
    instances_per_s: float
    histogram: str = ""
    """The distribution: HdrHistogram V2, microseconds, base64."""
    failures: dict[str, int] = field(default_factory=dict)
    """Errors by what happened: `timeout`, `HTTP 503`, `connection refused` …"""

    def to_dict(self) -> Json:
        return dict(self.__dict__)


@dataclass(frozen=True)
class GateReport:
    """The verdict with everything it rests on (`data`, see `opsctl/bench/README.md`)."""

    outcome: Outcome
    reason: str
    reason_kind: str
    data: Json

    def to_dict(self) -> Json:
        return {
            "format": FORMAT,
            "kind": "gate",
            "outcome": self.outcome,
            "reason": self.reason,
            "reason_kind": self.reason_kind,
            **self.data,
        }


@dataclass(frozen=True)
class BenchReport:
    """One arm over all batch sizes: what `opsctl bench run` stores."""

    data: Json

    def to_dict(self) -> Json:
        return {"format": FORMAT, "kind": "bench", **self.data}
