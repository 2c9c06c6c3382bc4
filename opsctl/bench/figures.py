"""Figures of an arm from its latencies, kept as an HDR histogram."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from hdrh.histogram import HdrHistogram

from opsctl.bench import stats
from opsctl.bench.report import ArmFigures
from opsctl.model import Json

LOWEST_US = 1
HIGHEST_US = 3_600_000_000
"""Range of the histograms: a microsecond to an hour."""

DIGITS = 3
"""Significant digits of the histograms: no figure is more than 0.1 % off."""

MICROSECONDS = 1_000_000
MILLISECONDS = 1_000.0


def histogram(latencies_s: Sequence[float], timeout_s: float) -> HdrHistogram:
    """Latencies in microseconds; an error (infinite) counts as the time limit, the worst."""
    result = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    for latency in latencies_s:
        value = timeout_s if math.isinf(latency) else latency
        result.record_value(max(LOWEST_US, round(value * MICROSECONDS)))
    return result


def figures(
    latencies_s: Sequence[float],
    failures: Mapping[str, int],
    *,
    timeout_s: float,
    instances_per_s: float,
) -> ArmFigures:
    """The figures of one arm at one batch size."""
    made = histogram(latencies_s, timeout_s)
    return ArmFigures(
        requests=len(latencies_s),
        errors=sum(failures.values()),
        p50_ms=percentile_ms(made, 50.0),
        p90_ms=percentile_ms(made, 90.0),
        p99_ms=percentile_ms(made, 99.0),
        p999_ms=percentile_ms(made, 99.9),
        mean_ms=made.get_mean_value() / MILLISECONDS if latencies_s else 0.0,
        instances_per_s=instances_per_s,
        histogram=made.encode().decode(),
        failures=dict(failures),
    )


def percentile_ms(made: HdrHistogram, percent: float) -> float:
    """A percentile in milliseconds; 0 for an empty histogram."""
    return float(made.get_value_at_percentile(percent)) / MILLISECONDS


def arms_report(record: Record, timeout_s: float, seconds: float) -> Json:
    """Figures by batch size and arm; the arms are `candidate`, or `baseline` and `candidate`."""
    result: Json = {}
    for size, by_arm in record.latencies.items():
        names = ("baseline", "candidate")[-len(by_arm) :]
        result[str(size)] = {
            name: figures(
                latencies,
                failures,
                timeout_s=timeout_s,
                instances_per_s=size * sum(map(math.isfinite, latencies)) / max(seconds, 1e-9),
            ).to_dict()
            for name, latencies, failures in zip(names, by_arm, record.failures[size], strict=True)
        }
    return result


def decode(text: str) -> HdrHistogram:
    """The histogram of a stored report."""
    return HdrHistogram.decode(text.encode())


def summary_ms(values_s: Sequence[float]) -> Json:
    """p50, p99 and largest of small times (client lag), in milliseconds."""
    ordered = sorted(values_s)
    if not ordered:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    last = len(ordered) - 1
    return {
        "p50": ordered[last // 2] * MILLISECONDS,
        "p99": ordered[math.ceil(last * 0.99)] * MILLISECONDS,
        "max": ordered[last] * MILLISECONDS,
    }


class Record:
    """Latencies and errors by batch size and arm, in the order in which rounds were scheduled."""

    def __init__(self, sizes: Sequence[int], arms: int) -> None:
        self.latencies: dict[int, list[list[float]]] = {
            size: [[] for _ in range(arms)] for size in sizes
        }
        self.failures: dict[int, list[Counter[str]]] = {
            size: [Counter() for _ in range(arms)] for size in sizes
        }
        self.times: dict[int, list[float]] = {size: [] for size in sizes}

    def add(
        self, size: int, at_s: float, latencies: Sequence[float], errors: Sequence[str]
    ) -> None:
        self.times[size].append(at_s)
        for arm, latency in enumerate(latencies):
            self.latencies[size][arm].append(latency)
            if errors[arm]:
                self.failures[size][arm][errors[arm]] += 1

    def add_one(self, size: int, arm: int, latency: float, error: str) -> None:
        """A request of one arm alone."""
        self.latencies[size][arm].append(latency)
        if error:
            self.failures[size][arm][error] += 1

    def rounds(self) -> int:
        """Requests that every arm has answered or failed, of all batch sizes."""
        return sum(min(map(len, by_arm)) for by_arm in self.latencies.values())

    def arm(self, arm: int) -> list[float]:
        """All latencies of an arm."""
        return [value for by_arm in self.latencies.values() for value in by_arm[arm]]

    def failures_of(self, arm: int) -> Counter[str]:
        """All errors of an arm by what happened."""
        total: Counter[str] = Counter()
        for by_arm in self.failures.values():
            total += by_arm[arm]
        return total


def spreads(record: Record) -> dict[int, float]:
    """Standard deviation of log latency by batch size, of the first arm."""
    return {size: stats.spread(np.array(arms[0])) for size, arms in record.latencies.items()}
