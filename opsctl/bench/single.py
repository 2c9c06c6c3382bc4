"""Measures one arm: latency by batch size under open load, and the most it can answer.

Nothing is decided here, but figures of a release that failed, or of a client that was held up, are
marked as such: nobody shall compare with them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict

from opsctl.bench import grpc_arm, machine
from opsctl.bench.bodies import load_bodies
from opsctl.bench.figures import Record, arms_report, spreads, summary_ms
from opsctl.bench.load import LoadPlan, Round, Stop
from opsctl.bench.outcome import Stretch, flaw
from opsctl.bench.raw import RawLog
from opsctl.bench.report import BenchReport, BenchRequest
from opsctl.bench.saturate import Saturation
from opsctl.bench.session import CpuMeter, Session, lag_max_s, session
from opsctl.model import Json

CAPACITY_S = 2.0
"""How long each batch size is saturated: long enough for some hundred answers of a slow service."""


class FixedCourse:
    """One batch size for a fixed time."""

    def __init__(
        self,
        size: int,
        request: BenchRequest,
        record: Record,
        interrupt: Callable[[], None],
        raw: RawLog | None = None,
    ) -> None:
        self.size = size
        self.request = request
        self.record = record
        self.interrupt = interrupt
        self.raw = raw or RawLog(None, request.seed)
        self.started = time.monotonic()

    def next_size(self) -> int:
        return self.size

    def rate(self) -> float:
        return self.request.bench.rate_per_s

    def finished(self, done: Round) -> None:
        self.raw.add(done, done.started - self.started)
        self.record.add(done.size, done.started - self.started, done.latencies, done.errors)

    def stop(self) -> Stop:
        self.interrupt()
        self.raw.flush()
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
    tell(_plan_sentence(request, plan))
    holder = machine.wait_for_machine(0.0, tell, interrupt)
    try:
        with session(plan, request.client_cpus) as opened:
            return _Measurement(request, opened, tell, interrupt).run(alone=holder is not None)
    finally:
        if holder is not None:
            holder.close()


def _plan_sentence(request: BenchRequest, plan: LoadPlan) -> str:
    """What to expect, before anything is sent."""
    sizes = plan.bodies.sizes
    seconds = len(sizes) * (request.seconds_a_size + CAPACITY_S)
    return (
        f"benchmark of batch sizes {', '.join(map(str, sizes))}: about {seconds:.0f} s after a "
        f"warm-up of at most {request.bench.warmup_max_s:g} s"
    )


def precision_percent(spread: float, requests: float) -> float:
    """How exactly p50 will be known: half the width of its 95 % interval, in percent of it.

    `spread` is the standard deviation of log latency. The standard error of a normal sample's
    median is 1.2533 times that of its mean (David and Nagaraja, "Order Statistics", 2003).
    """
    return 100.0 * (math.exp(1.96 * 1.2533 * spread / math.sqrt(requests)) - 1.0)


class _Measurement:
    """One benchmark of one arm, from its warm-up to its report."""

    def __init__(
        self,
        request: BenchRequest,
        opened: Session,
        tell: Callable[[str], None],
        interrupt: Callable[[], None],
    ) -> None:
        self.request = request
        self.opened = opened
        self.tell = tell
        self.interrupt = interrupt
        self.sizes = opened.plan.bodies.sizes
        self.record = Record(self.sizes, 1)
        self.lags: dict[int, list[float]] = {}

    def run(self, *, alone: bool) -> BenchReport:
        """Measure all batch sizes. `alone`: no gate runs on this machine."""
        started = time.time()
        warm, warmup = self.opened.warm_up(self.interrupt)
        planned = self._planned(warm)
        meter = CpuMeter({"server": self.request.pid})
        self._load()
        batches = arms_report(
            self.record, self.request.bench.timeout_s, self.request.seconds_a_size
        )
        cpu = meter.report()
        for size in self.sizes:
            batches[str(size)]["capacity"] = _capacity(size, self.opened, self.interrupt)
        found = flaw(self.request.gate, [self._stretch(size) for size in self.sizes], alone=alone)
        return BenchReport(
            {
                "outcome": "measured" if found is None else found.outcome,
                "reason": "" if found is None else found.reason,
                "reason_kind": "" if found is None else found.kind,
                "release": self.request.release,
                "started": started,
                "seed": self.request.seed,
                "machine": machine.fingerprint(),
                "bench": asdict(self.request.bench),
                "bodies": self.opened.plan.bodies.digest,
                "warmup": warmup,
                "planned": planned,
                "seconds_a_size": self.request.seconds_a_size,
                "lag_ms": {str(size): summary_ms(lags) for size, lags in self.lags.items()},
                "cpu_percent": cpu,
                "batch_sizes": batches,
            }
        )

    def _planned(self, warm: Record) -> Json:
        """How exactly each p50 will be known, judged from the warm-up; told, too."""
        requests = max(self.request.bench.rate_per_s * self.request.seconds_a_size, 1.0)
        exact = {
            size: precision_percent(spread, requests)
            for size, spread in spreads(warm).items()
            if math.isfinite(spread)
        }
        if exact:
            self.tell(f"p50 will be known to about ±{max(exact.values()):.1f} % (95 %)")
        return {"requests": requests, "p50_percent": {str(size): x for size, x in exact.items()}}

    def _load(self) -> None:
        """Open load of each batch size in turn; what an interrupt leaves is on disk."""
        raw = RawLog(self.request.progress_path, self.request.seed)
        seconds = self.request.seconds_a_size
        try:
            for size in self.sizes:
                self.tell(f"benchmark of batch size {size}: {seconds:g} s of open load")
                course = FixedCourse(size, self.request, self.record, self.interrupt, raw)
                self.opened.drive(course)
                self.lags[size] = list(self.opened.generator.lags)
        finally:
            raw.flush(now=True)

    def _stretch(self, size: int) -> Stretch:
        """What happened to the load of one batch size."""
        (latencies,) = self.record.latencies[size]
        answered = [value for value in latencies if math.isfinite(value)]
        late_s = lag_max_s(self.request.gate, statistics.median(answered) if answered else 0.0)
        return Stretch(
            size,
            len(latencies),
            self.record.failures[size][0],
            sum(lag > late_s for lag in self.lags[size]),
            summary_ms(self.lags[size])["p99"],
        )


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
