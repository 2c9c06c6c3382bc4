"""What Prometheus reads on the health port."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest

# A small model on a CPU answers in about 1 ms, a saturated service in some 100 ms: fine steps
# there, and the request's time limit (10 s) as the end.
LATENCY_BUCKETS_S = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075,
    0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Identity:
    """The labels of every series: which model, which version of it."""

    model: str
    version: str


class Metrics:
    """The service's series. Latencies are in seconds, as Prometheus wants them.

    Each instance has its own registry, so that two services in one process do not mix.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        labels = ("model", "version")
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "inference_requests_total", "Prediction requests, failed ones included", labels
        )
        self.errors = counter(
            "inference_errors_total",
            "Failed requests; kind: client, server, rejected or timeout",
            (*labels, "kind"),
        )
        self.latency = histogram(
            "inference_latency_seconds",
            "From a request's last byte to its answer, failed ones included",
            labels,
            buckets=LATENCY_BUCKETS_S,
        )
        self.instances = counter("inference_instances_total", "Instances answered", labels)
        self.anomalies = counter("anomalies_detected_total", "Instances flagged", labels)
        self.batch_size = histogram(
            "inference_batch_instances", "Instances in a batch", labels, buckets=BATCH_BUCKETS
        )
        self.batch_seconds = histogram(
            "inference_batch_seconds",
            "Time of a batch in the back end",
            labels,
            buckets=LATENCY_BUCKETS_S,
        )
        self.queued = gauge("inference_queue_instances", "Instances that wait", labels)
        self.ready = gauge("inference_ready", "1 when ready for traffic", labels)
        devices = (*labels, "device")
        self.utilization = {
            kind: gauge(f"{kind}_utilization_percent", f"{kind.upper()} busy, 0–100", devices)
            for kind in ("gpu", "npu")
        }
        self.memory_used = {
            kind: gauge(f"{kind}_memory_used_bytes", f"{kind.upper()} memory in use", devices)
            for kind in ("gpu", "npu")
        }
        self.memory_total = {
            kind: gauge(f"{kind}_memory_total_bytes", f"{kind.upper()} memory", devices)
            for kind in ("gpu", "npu")
        }

    def announce(self, identity: Identity) -> None:
        """Creates the main series at zero, so that a rate has a start and an alert a value."""
        self.requests.labels(identity.model, identity.version)
        self.latency.labels(identity.model, identity.version)
        for kind in ("client", "server", "rejected", "timeout"):
            self.errors.labels(identity.model, identity.version, kind)

    def render(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self.registry)


CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
