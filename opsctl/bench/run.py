"""Runs a gate: warm-up, plan, measurement, outcome, report."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from dataclasses import asdict, dataclass

from opsctl.bench import grpc_arm, machine, outcome, stats
from opsctl.bench.bodies import load_bodies
from opsctl.bench.course import GateCourse, Interrupt, Steering, Tell
from opsctl.bench.external_course import External
from opsctl.bench.figures import Record, spreads, summary_ms
from opsctl.bench.load import LoadPlan
from opsctl.bench.report import GateReport, GateRequest, Verdict
from opsctl.bench.session import CpuMeter, Session, lag_max_s, session
from opsctl.bench.slice_course import SliceCourse
from opsctl.bench.throughput import METRIC, Throughput
from opsctl.model import Json

BUSY_MAX = 0.3
"""Share of the arms' CPUs that the load may use: queues in front of them hide differences
(a true +5 % measures as +3.6 % at 0.5)."""

PERCENT = 100.0


def run_gate(request: GateRequest, *, tell: Tell, interrupt: Interrupt) -> GateReport:
    """Measure the arms until a verdict is possible, or the budget is used up.

    Raises TargetUnreachable or ConfigError when an arm does not say where it speaks gRPC.
    `interrupt` is called at least every 0.1 s; what it raises ends the load at once and comes out,
    with the rounds so far in `request.progress_path`. Raises ConfigError for
    unreadable request bodies and queries that Prometheus can't answer. A server that does not
    answer is an outcome, not an error.
    """
    arms = tuple(arm for arm in (request.baseline, request.candidate) if arm is not None)
    if request.bench.protocol == "grpc":
        arms = tuple(grpc_arm.located(arm, request.bench) for arm in arms)
    # The old release says what users send today: a candidate that takes it no more shall fail.
    bodies = load_bodies(request.bench, request.root, arms[0])
    plan = LoadPlan(arms, request.bench, bodies, request.seed)
    external = External(request, tell, interrupt) if request.gate.prometheus else None
    holder = None
    try:
        if external is not None:
            external.check()
        holder = machine.wait_for_machine(request.gate.budget_s, tell, interrupt)
        with session(plan, request.client_cpus) as opened:
            surroundings = Around(holder is not None, external, tell, interrupt)
            report = _measured(request, opened, surroundings)
    finally:
        if holder is not None:
            holder.close()
        if external is not None:
            external.close()
    tell(f"gate: {report.outcome}: {report.reason}")
    return report


@dataclass(frozen=True)
class Around:
    """What a measurement has beside its arms. `alone`: no other gate runs on this machine."""

    alone: bool
    external: External | None
    tell: Tell
    interrupt: Interrupt


def _measured(request: GateRequest, opened: Session, around: Around) -> GateReport:
    started = time.time()
    pids = {"baseline": request.baseline_pid, "candidate": request.candidate_pid}
    meter = CpuMeter(pids)
    warm, warmup = opened.warm_up(around.interrupt)
    steering = steer(request, warm, meter)
    plan = planned(request, warm, steering)
    around.tell(plan_sentence(request, plan))
    course = course_of(request, steering, around.tell, around.interrupt)
    throughput = _full_load(request, opened, course)
    if around.external is not None:
        around.external.begin()
    meter = CpuMeter(pids)
    try:
        opened.drive(course, course.turns)
        seconds, cpu = course.elapsed, meter.report()
        course.close()
        lag = summary_ms(opened.generator.lags)
        metrics = {} if course.single else course.metrics()
        verdict = concluded(request, course, Signs(lag, cpu, metrics, around.alone))
        if around.external is not None and verdict.outcome == "pass":
            verdict = around.external.judge(opened, course, verdict)
            metrics |= around.external.report()
    finally:
        course.raw.flush(now=True)
    data: Json = {
        "started": started,
        "seed": request.seed,
        "machine": machine.fingerprint(),
        "bench": asdict(request.bench),
        "bodies": opened.plan.bodies.digest,
        "gate": asdict(request.gate),
        "warmup": warmup,
        "planned": plan,
        "seconds": seconds,
        "rounds": course.record.rounds(),
        "rounds_late": course.late,
        "deciding_metric": verdict.metric,
        "lag_ms": lag,
        "cpu_percent": cpu,
        "reconnects": [pool.reconnects for pool in opened.generator.pools],
        "block_times": [[round(at, 3), size] for at, size in course.blocks],
        "batch_sizes": course.batches(seconds),
        "metrics": metrics,
        "throughput": None if throughput is None else throughput.report(),
    }
    return GateReport(verdict.outcome, verdict.reason, verdict.kind, data)


def _full_load(request: GateRequest, opened: Session, course: GateCourse) -> Throughput | None:
    """Throughput, where it is asked for and there is something to compare with."""
    if METRIC not in request.gate.metrics or course.single:
        return None
    throughput = Throughput(opened, course.judge, course.evidence)
    throughput.run(course.interrupt)
    course.begin(course.elapsed)
    return throughput


def steer(request: GateRequest, warm: Record, meter: CpuMeter) -> Steering:
    """Rate and costs from the warm-up: medians say what a batch size costs beside the others,
    CPU time says what a round costs, so that the arms stay idle most of the time."""
    costs = {}
    for size, by_arm in warm.latencies.items():
        answered = [value for arm in by_arm for value in arm if math.isfinite(value)]
        costs[size] = statistics.median(answered) if answered else 1.0
    rate = request.bench.rate_per_s
    used = sum(use.ran_s for name, use in meter.used().items() if name != "client")
    cpus = machine.cpus_of([request.baseline_pid, request.candidate_pid])
    if request.bench.interleave == "slices":
        # One device serves one request at a time, so its time is what an idle one takes.
        rate = min(rate, BUSY_MAX * sum(1.0 / cost for cost in costs.values()) / len(costs) / 2)
        return Steering(rate, costs, lag_max_s(request.gate, min(costs.values())))
    rounds = {size: len(times) for size, times in warm.times.items()}
    spent = sum(costs[size] * count for size, count in rounds.items())
    if used > 0.0 and cpus and spent > 0.0:
        # Equal device time a size makes a mean round cost the harmonic mean of the costs.
        mean_cost = len(costs) / sum(1.0 / cost for cost in costs.values())
        rate = min(rate, BUSY_MAX * cpus / (used / spent * mean_cost))
    return Steering(rate, costs, lag_max_s(request.gate, min(costs.values())))


def course_of(
    request: GateRequest, steering: Steering, tell: Tell, interrupt: Interrupt
) -> GateCourse:
    """Pairs of requests, or slices of time where both arms share one device."""
    sliced = request.bench.interleave == "slices" and request.baseline is not None
    kind = SliceCourse if sliced else GateCourse
    return kind(request, steering, tell=tell, interrupt=interrupt)


def planned(request: GateRequest, warm: Record, steering: Steering) -> Json:
    """Pairs and seconds that the gate will need, judged from the warm-up's spread."""
    needed = outcome.pairs_needed(request.gate, spreads(warm))
    slowest = max(needed.values(), default=0)
    return {
        "rounds_per_s": steering.rounds_per_s,
        "pairs_needed": needed,
        "seconds_to_pass": slowest / steering.rounds_per_s,
        "seconds_to_see_refused_p50": _seconds_to_see(request, warm, steering),
        "budget_s": request.gate.budget_s,
    }


def _seconds_to_see(request: GateRequest, warm: Record, steering: Steering) -> float | None:
    gate = request.gate
    known = [value for value in spreads(warm).values() if math.isfinite(value)]
    if not known or gate.refused_p50_percent <= gate.tolerated_p50_percent:
        return None
    pairs = stats.pairs_to_see(
        gate.refused_p50_percent / PERCENT,
        gate.tolerated_p50_percent / PERCENT,
        max(known),
        gate.alpha / len(known),
    )
    return max(pairs, gate.min_pairs) * len(known) / steering.rounds_per_s


def plan_sentence(request: GateRequest, plan: Json) -> str:
    """What to expect, before the measurement starts."""
    budget = f"at most {request.gate.budget_s:g} s"
    if request.baseline is None:
        return f"benchmark against absolute limits only, {budget}"
    seconds = plan["seconds_to_see_refused_p50"]
    if seconds is None:
        return f"benchmark of old against new, {budget}"
    return (
        f"benchmark of old against new at {plan['rounds_per_s']:.0f} pairs/s, {budget}: "
        f"+{request.gate.refused_p50_percent:g} % p50 will be seen in about {seconds:.0f} s"
    )


@dataclass(frozen=True)
class Signs:
    """What was measured besides the verdict, as in the report."""

    lag_ms: Json
    cpu_percent: Json
    metrics: Json
    alone: bool


def concluded(request: GateRequest, course: GateCourse, signs: Signs) -> Verdict:
    """The outcome of the course that has ended."""
    record, single = course.record, course.single
    around = outcome.Surroundings(
        rounds=record.rounds(),
        alone=signs.alone,
        late=course.late,
        lag_p99_ms=signs.lag_ms["p99"],
        baseline_failures=Counter() if single else record.failures_of(0),
        baseline_requests=0 if single else record.rounds(),
        cpu=shares(signs.cpu_percent),
        candidate_failures=record.failures_of(-1),
        candidate_requests=record.rounds(),
    )
    verdict = course.verdict
    ratios = {name: metric.get("ratio") for name, metric in signs.metrics.items()}
    if verdict is None and record.rounds() >= request.gate.min_pairs:
        verdict = outcome.undecided(course.judge, spreads(record), ratios)
    return outcome.decide(request.gate, around, verdict)


def shares(cpu_percent: Json) -> tuple[outcome.Share, outcome.Share] | None:
    """CPU of baseline and candidate; None where it can't be told."""
    arms = [cpu_percent.get(name) for name in ("baseline", "candidate")]
    known = [outcome.Share(arm["ran"], arm["waited"]) for arm in arms if arm and arm["ran"]]
    return (known[0], known[1]) if len(known) == 2 else None
