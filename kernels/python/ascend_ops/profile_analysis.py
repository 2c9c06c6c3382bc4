"""What a profile says: latencies, throughput, top ops, utilisation, bottlenecks, recommendations.

Utilisation is weighted by time. *Compute*: the share of the time of tasks on AI cores that their
cube or vector unit works, whichever works more. *Bandwidth*: bytes moved a second against the
device's peak, where both are known; otherwise the share of time that the copy engines work.
The gains of recommendations are estimates from experience, not measurements.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ascend_ops.profile_read import Profile, Task

BANDWIDTH_MIN: Final = 0.60
COMPUTE_MIN: Final = 0.50
GAP_MAX: Final = 0.20  # of the span: then launches, and no kernel, decide
HOST_CORES: Final = ("AI_CPU", "HCCL", "COMMUNICATION")
AI_CPU_MAX: Final = 0.10  # of the time of all tasks


@dataclass(frozen=True)
class Latency:
    """Times of an iteration in µs; `source` says where from."""

    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    count: int
    source: str


@dataclass(frozen=True)
class TopOp:
    """All tasks of one op type on one kind of core; `share` is of the time of all tasks."""

    type: str
    core: str
    count: int
    total_us: float
    mean_us: float
    share: float
    bound_by: str


@dataclass(frozen=True)
class Recommendation:
    """What to do, why, and what it is estimated to gain (in percent of the time)."""

    what: str
    why: str
    gain_percent: tuple[int, int]


@dataclass(frozen=True)
class Analysis:
    """Everything; fractions are 0…1, and None where the profile has no column for it."""

    generation: str
    tasks: int
    devices: int
    latency: Latency
    throughput_per_s: float
    top: tuple[TopOp, ...]
    compute_utilisation: float | None
    bandwidth_utilisation: float | None
    bandwidth_basis: str
    idle: float | None
    bottlenecks: tuple[str, ...]
    recommendations: tuple[Recommendation, ...]


def analyse(profile: Profile, top: int = 10, peak_gb_s: float | None = None) -> Analysis:
    """The analysis of a profile; `peak_gb_s` is the device's memory bandwidth in 10^9 bytes/s."""
    tasks = profile.tasks
    latency = measure_latency(profile)
    compute = _weighted([(task, _compute(task)) for task in tasks if _on_core(task)])
    bandwidth, basis = _bandwidth_utilisation(tasks, peak_gb_s)
    idle = _idle(tasks)
    ops = _top(tasks, top)
    return Analysis(
        generation=profile.generation,
        tasks=len(tasks),
        devices=len({task.device for task in tasks}),
        latency=latency,
        throughput_per_s=1e6 / latency.mean_us if latency.mean_us else 0.0,
        top=ops,
        compute_utilisation=compute,
        bandwidth_utilisation=bandwidth,
        bandwidth_basis=basis,
        idle=idle,
        bottlenecks=_bottlenecks(tasks, ops, idle),
        recommendations=_recommend(compute, bandwidth, idle, tasks),
    )


def measure_latency(profile: Profile) -> Latency:
    """Iteration times: step_trace's, or from the tasks of each iteration, first start to last end.

    CANN 8 and 9 number no iterations: when each op of a device ran equally often, that often the
    graph ran; otherwise the profile counts as one iteration.
    """
    if profile.iterations_us:
        return _summary(profile.iterations_us, "step_trace")
    times: list[float] = []
    for device in {task.device for task in profile.tasks}:
        times += [
            _span(group)
            for group in _split([task for task in profile.tasks if task.device == device])
        ]
    return _summary(times, "tasks")


def _split(tasks: Sequence[Task]) -> list[list[Task]]:
    numbers = sorted({task.iteration for task in tasks if task.iteration is not None})
    if len(numbers) > 1:
        return [[task for task in tasks if task.iteration == number] for number in numbers]
    counts = dict.fromkeys((task.name for task in tasks), 0)
    for task in tasks:
        counts[task.name] += 1
    often = set(counts.values())
    if len(often) == 1 and (runs := often.pop()) > 1:
        size = len(tasks) // runs
        return [list(tasks[i * size : (i + 1) * size]) for i in range(runs)]
    return [list(tasks)]


def _span(tasks: Sequence[Task]) -> float:
    starts = [task.start for task in tasks if task.start is not None]
    if len(starts) < len(tasks):
        return sum(task.duration_us for task in tasks)
    return max((task.start or 0.0) + task.duration_us for task in tasks) - min(starts)


def _summary(times: Sequence[float], source: str) -> Latency:
    ordered = sorted(times)
    return Latency(
        statistics.fmean(ordered),
        _percentile(ordered, 50),
        _percentile(ordered, 95),
        _percentile(ordered, 99),
        len(ordered),
        source,
    )


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """Between neighbours linearly, as numpy.percentile does."""
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _on_core(task: Task) -> bool:
    return bool(task.ratios) and not task.core.upper().startswith(HOST_CORES)


def _compute(task: Task) -> float | None:
    known = [task.ratios[pipe] for pipe in ("mac", "vec") if pipe in task.ratios]
    return max(known) if known else None


def _copying(task: Task) -> float | None:
    known = [task.ratios[pipe] for pipe in ("mte2", "mte3") if pipe in task.ratios]
    return max(known) if known else None


def _weighted(values: Sequence[tuple[Task, float | None]]) -> float | None:
    """The mean weighted by the tasks' durations; None when there is nothing to weigh."""
    known = [(task.duration_us, value) for task, value in values if value is not None]
    total = sum(duration for duration, _ in known)
    return sum(duration * value for duration, value in known) / total if total else None


def _bandwidth_utilisation(
    tasks: Sequence[Task], peak_gb_s: float | None
) -> tuple[float | None, str]:
    measured = _weighted([(task, task.bandwidth_gb_s) for task in tasks])
    if peak_gb_s and measured is not None:
        return measured / peak_gb_s, f"{measured:.1f} GB/s measured, of {peak_gb_s:g} GB/s"
    sized = [task for task in tasks if task.bytes and _on_core(task)]
    time_us = sum(task.duration_us for task in sized)
    if peak_gb_s and time_us:
        moved = sum(task.bytes for task in sized) / time_us / 1e3
        return moved / peak_gb_s, f"{moved:.1f} GB/s by shapes, of {peak_gb_s:g} GB/s"
    copying = _weighted([(task, _copying(task)) for task in tasks if _on_core(task)])
    if copying is None:
        return None, "not profiled: collect --aic-metrics=PipeUtilization or Memory"
    return copying, "share of time that copy engines work; --peak-gb-s gives the true one"


def _idle(tasks: Sequence[Task]) -> float | None:
    """The share of the span in which no task of a device runs; None without start times."""
    idle = total = 0.0
    for device in {task.device for task in tasks}:
        own = [task for task in tasks if task.device == device]
        if any(task.start is None for task in own) or len(own) < 2:
            continue
        intervals = sorted(((t.start or 0.0), (t.start or 0.0) + t.duration_us) for t in own)
        end = intervals[0][1]
        for begin, stop in intervals[1:]:
            idle += max(0.0, begin - end)
            end = max(end, stop)
        total += end - intervals[0][0]
    return idle / total if total else None


def _top(tasks: Sequence[Task], count: int) -> tuple[TopOp, ...]:
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        groups.setdefault((task.type, task.core), []).append(task)
    everything = sum(task.duration_us for task in tasks)
    ops = []
    for (kind, core), group in groups.items():
        total = sum(task.duration_us for task in group)
        share = total / everything if everything else 0.0
        mean = total / len(group)
        ops.append(TopOp(kind, core, len(group), total, mean, share, _bound_by(group)))
    ops.sort(key=lambda op: (-op.total_us, op.type))
    return tuple(ops[:count])


def _bound_by(group: Sequence[Task]) -> str:
    """The pipe that works most of the time of these tasks."""
    pipes = {pipe for task in group for pipe in task.ratios}
    means = {pipe: _weighted([(t, t.ratios.get(pipe)) for t in group]) or 0.0 for pipe in pipes}
    if not means or max(means.values()) == 0.0:
        return "unknown"
    pipe = max(sorted(means), key=lambda name: means[name])
    return f"{NAMES[pipe]} {100 * means[pipe]:.0f}%"


NAMES: Final = {
    "mac": "cube",
    "vec": "vector",
    "scalar": "scalar",
    "mte1": "copy L1",
    "mte2": "copy in",
    "mte3": "copy out",
    "fixpipe": "fixpipe",
}


def _bottlenecks(
    tasks: Sequence[Task], ops: Sequence[TopOp], idle: float | None
) -> tuple[str, ...]:
    found = [
        f"{op.type} takes {100 * op.share:.0f}% of the time, most of it in: {op.bound_by}"
        for op in ops[:3]
        if op.share >= 0.1
    ]
    if idle is not None and idle > GAP_MAX:
        longest = max((task.wait_us for task in tasks), default=0.0)
        found.append(
            f"the device waits {100 * idle:.0f}% of the time for the next task "
            f"(longest wait {longest:.1f} µs)"
        )
    host = _share(tasks, "AI_CPU")
    if host > AI_CPU_MAX:
        found.append(f"{100 * host:.0f}% of the time is spent on the AI CPU, not on AI cores")
    return tuple(found)


def _share(tasks: Sequence[Task], core: str) -> float:
    total = sum(task.duration_us for task in tasks)
    own = sum(task.duration_us for task in tasks if task.core.upper() == core)
    return own / total if total else 0.0


def _recommend(
    compute: float | None, bandwidth: float | None, idle: float | None, tasks: Sequence[Task]
) -> tuple[Recommendation, ...]:
    advice = []
    if bandwidth is not None and bandwidth < BANDWIDTH_MIN:
        advice.append(
            Recommendation(
                "improve the access pattern: whole, aligned, contiguous blocks; larger tiles; "
                "two buffers on each side",
                f"memory bandwidth is used to {100 * bandwidth:.0f}%, below "
                f"{100 * BANDWIDTH_MIN:.0f}%",
                (25, 40),
            )
        )
    if compute is not None and compute < COMPUTE_MIN:
        waits = "" if idle is None else f", and the device waits {100 * idle:.0f}% of the time"
        advice.append(
            Recommendation(
                "fuse ops and launch fewer: opsctl model optimize; "
                f"{len(tasks)} tasks, chains such as {_chain(tasks)}",
                f"compute units are used to {100 * compute:.0f}%, below "
                f"{100 * COMPUTE_MIN:.0f}%{waits}",
                (30, 50),
            )
        )
    return tuple(advice)


def _chain(tasks: Sequence[Task]) -> str:
    """The pair of op types that follow each other most often."""
    counts: dict[tuple[str, str], int] = {}
    for before, task in pairwise(tasks):
        if before.device == task.device:
            counts[before.type, task.type] = counts.get((before.type, task.type), 0) + 1
    if not counts:
        return "none"
    first, second = max(sorted(counts), key=lambda pair: counts[pair])
    return f"{first} → {second} ({counts[first, second]} times)"
