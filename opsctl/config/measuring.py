"""Keys of opsctl.yaml about the benchmark: its load and its judgement."""

from __future__ import annotations

import re
from typing import Any

from opsctl.config.fields import Section, key, section
from opsctl.config.secret_source import SecretSource

BATCH_SIZES = (1, 4, 16, 32)
"""The batch sizes of the release report that the field asks for."""

RATE_MAX = 100_000
"""Several times what the load generator can send."""

CONNECTIONS_MAX = 4096
"""As many as the load balancer takes."""

PREDICT_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?:predict", re.IGNORECASE
)
"""A path that says all that gRPC's Predict has to know: a model, and perhaps its version."""


@section
class Bench(Section):
    """The load of the benchmark."""

    path: str = key(doc="Path that is measured.", example="/v1/models/m:predict")
    method: str = key("POST", doc="HTTP method.", choices=("GET", "POST"))
    requests_file: str | None = key(
        None,
        doc="JSON lines, one `instances` item each, of which batches are cut, or a recording;"
        " default: made from the model's signature, for a :predict path.",
    )
    protocol: str = key(
        "rest",
        doc="rest: HTTP/1.1; grpc: TensorFlow Serving's Predict, asked of a replica's own port (the"
        " front door speaks HTTP alone). Needs opsctl[grpc].",
        choices=("rest", "grpc"),
    )
    grpc_port: int | None = key(
        None,
        doc="Port of gRPC on each replica's address; default: `grpc_port` of its /health.",
        low=1,
        high=65535,
        example=8500,
    )
    redact: tuple[str, ...] = key(
        (),
        doc="Fields that `opsctl bench record` blanks: dotted, * for every item.",
        example=("instances.*.user",),
    )
    body: Any = key(None, doc="JSON body for services without `instances` (batch size 1 only).")
    batch_sizes: tuple[int, ...] = key(
        BATCH_SIZES, doc="Batch sizes, each measured.", low=1, high=4096
    )
    rate_per_s: float = key(
        100.0, doc="Request pairs a second (each pair asks both arms).", low=1, high=RATE_MAX
    )
    arrivals: str = key("poisson", doc="Spacing of requests.", choices=("poisson", "constant"))
    interleave: str = key(
        "pairs",
        doc="pairs of requests, or slices of time where both arms share one accelerator.",
        choices=("pairs", "slices"),
    )
    warmup_s: float = key(3.0, doc="Least warm-up.", low=0)
    warmup_requests: int = key(50, doc="Least warm-up requests an arm and batch size.", low=0)
    warmup_max_s: float = key(30.0, doc="Longest warm-up.", low=0)
    timeout_s: float = key(5.0, doc="Time limit of a request; it then counts as worst.", low=0.05)
    connections: int = key(16, doc="Connections an arm.", low=1, high=CONNECTIONS_MAX)
    seed: int | None = key(
        None, doc="Seed of coin flips and arrivals; default: random, reported.", low=0
    )

    @property
    def is_generated(self) -> bool:
        """Whether bodies are made from the model's signature, as none are given."""
        given = self.requests_file is not None or self.body is not None
        return self.method == "POST" and not given and self.path.lower().endswith(":predict")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The batch sizes that are measured: one, where no batches can be made."""
        return self.batch_sizes if self.requests_file or self.is_generated else (1,)


@section
class PrometheusQuery(Section):
    """One value of the service's own metrics, asked for each arm of the gate."""

    name: str = key(doc="Name in reports.", example="queue length")
    query: str = key(
        doc="PromQL that gives one value; {release} {replica} {host} {port} {health_port} are"
        " those of the arm that is asked for.",
        example='avg_over_time(queue_length{instance="{host}:{health_port}"}[15s])',
    )
    better: str = key("lower", doc="Which values are better.", choices=("lower", "higher"))
    tolerated_percent: float = key(5.0, doc="Worse than the old one that is no matter.", low=0)
    refused_percent: float | None = key(
        20.0, doc="Worse than the old one that must be ruled out; null: only limits judge.", low=0
    )
    least: float | None = key(None, doc="Absolute limit: the new one's median is no less.")
    most: float | None = key(None, doc="Absolute limit: the new one's median is no more.")


@section
class Prometheus(Section):
    """A Prometheus server whose values judge beside the benchmark, while its load runs."""

    url: str = key(doc="Where it answers.", example="http://127.0.0.1:9090")
    queries: tuple[PrometheusQuery, ...] = key(doc="Metrics that decide.", example=())
    interval_s: float = key(
        15.0,
        doc="Time between two values; no shorter than the scrape interval and ranges of queries.",
        low=0.2,
    )
    timeout_s: float = key(5.0, doc="Time limit of one question.", low=0.1)
    token: SecretSource | None = key(None, doc="Bearer token.")
    ca_file: str | None = key(
        None, doc="PEM file of the authorities that sign its certificate; default: the system's."
    )


@section
class Gate(Section):
    """The judgement of the benchmark (new against old)."""

    enabled: bool = key(True, doc="Whether a deploy is gated by a benchmark.")
    budget_s: float = key(480.0, doc="Longest measurement, all batch sizes together.", low=0.5)
    min_pairs: int = key(200, doc="Least valid pairs before any verdict.", low=10)
    alpha: float = key(0.01, doc="Bound on a false fail.", low=1e-6, high=0.5)
    beta: float = key(0.01, doc="Bound on a false pass of any metric but p99.", low=1e-6, high=0.5)
    beta_p99: float = key(
        0.03, doc="Bound on a false pass of p99, which asks for most pairs.", low=1e-6, high=0.5
    )
    tolerated_p50_percent: float = key(1.5, doc="Slower p50 that is no regression.", low=0)
    tolerated_p99_percent: float = key(2.0, doc="Slower p99 that is no regression.", low=0)
    refused_p50_percent: float = key(5.0, doc="Slower p50 that must be ruled out.", low=0)
    refused_p99_percent: float = key(8.0, doc="Slower p99 that must be ruled out.", low=0)
    refused_error_rate: float = key(
        0.01, doc="Rate of extra errors that must be ruled out.", low=0, high=1
    )
    metrics: tuple[str, ...] = key(
        ("p50", "p99", "errors"),
        doc="Metrics that decide.",
        choices=("p50", "p99", "errors", "throughput"),
    )
    max_p99_ms: float | None = key(None, doc="Absolute limit on p99 (first deploy too).", low=0)
    max_error_rate: float = key(0.01, doc="Absolute limit on errors.", low=0, high=1)
    max_lag_percent: float = key(
        10.0, doc="Client lag, percent of p50, above which a round is set aside.", low=0
    )
    on_inconclusive: str = key(
        "rollback", doc="When nothing could be decided.", choices=("rollback", "pause")
    )
    prometheus: Prometheus | None = key(
        None, doc="Values of the service's own metrics that judge too."
    )
    confirm: bool = key(True, doc="Measure again with slots swapped before failing.")
