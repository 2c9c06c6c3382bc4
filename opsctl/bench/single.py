"""Measures one arm: latency by batch size under open load, and the most it can answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from opsctl.bench import grpc_arm, machine
from opsctl.bench.bodies import load_bodies
from opsctl.bench.figures import Record, arms_report, summary_ms
from opsctl.bench.load import LoadPlan, Round, Stop
from opsctl.bench.report import BenchReport, BenchRequest
from opsctl.bench.saturate import Saturation
from opsctl.bench.session import CpuMeter, Session, session
from opsctl.model import Json

CAPACITY_S = 2.0
"""How long each batch size is saturated: long enough for some hundred answers of a slow service."""


class FixedCourse:
    """One batch size for a fixed time."""

    def __init__(
        self, size: int, request: BenchRequest, record: Record, interrupt: Callable[[], None]
    ) -> None:
        self.size = size
        self.request = request
        self.record = record
        self.interrupt = interrupt
        self.started = time.monotonic()

    def next_size(self) -> int:
        return self.size

    def rate(self) -> float:
        return self.request.bench.rate_per_s

    def finished(self, done: Round) -> None:
        self.record.add(done.size, done.started - self.started, done.latencies, done.errors)

    def stop(self) -> Stop:
        self.interrupt()
        over = time.monotonic() - self.started >= self.request.seconds_a_size
        return "drain" if over else ""


def measure(
    request: BenchRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> BenchReport:
    """Benchmark every batch size in turn. Raises ConfigError for unreadable request bodies."""
    endpoint = request.endpoint
    if request.bench.protocol == "grpc":
        endpoint = grpc_arm.located(endpoint, request.bench)
    bodies = load_bodies(request.bench, request.root, endpoint)
    plan = LoadPlan((endpoint,), request.bench, bodies, request.seed)
    with session(plan, request.client_cpus) as opened:
        return _measured(request, opened, tell, interrupt)


def _measured(
    request: BenchRequest,
    opened: Session,
    tell: Callable[[str], None],
    interrupt: Callable[[], None],
) -> BenchReport:
    started = time.time()
    _, warmup = opened.warm_up(interrupt)
    sizes = opened.plan.bodies.sizes
    record = Record(sizes, 1)
    meter = CpuMeter({"server": request.pid})
    lag: Json = {}
    for size in sizes:
        tell(f"benchmark of batch size {size}: {request.seconds_a_size:g} s of open load")
        opened.drive(FixedCourse(size, request, record, interrupt))
        lag[str(size)] = summary_ms(opened.generator.lags)
    batches = arms_report(record, request.bench.timeout_s, request.seconds_a_size)
    cpu = meter.report()
    for size in sizes:
        batches[str(size)]["capacity"] = _capacity(size, opened, interrupt)
    data = {
        "release": request.release,
        "started": started,
        "seed": request.seed,
        "machine": machine.fingerprint(),
        "bench": asdict(request.bench),
        "bodies": opened.plan.bodies.digest,
        "warmup": warmup,
        "seconds_a_size": request.seconds_a_size,
        "lag_ms": lag,
        "cpu_percent": cpu,
        "batch_sizes": batches,
    }
    return BenchReport(data)


def _capacity(size: int, opened: Session, interrupt: Callable[[], None]) -> Json:
    payloads = [by_arm[0] for by_arm in opened.generator.payloads[size]]
    full = Saturation(opened.generator.pools[0], payloads, CAPACITY_S)
    rate = opened.loop.run_until_complete(full.run(interrupt, opened.plan.bench.timeout_s))
    return {
        "requests_per_s": rate,
        "instances_per_s": rate * size,
        "errors": full.failed,
        "seconds": CAPACITY_S,
    }
