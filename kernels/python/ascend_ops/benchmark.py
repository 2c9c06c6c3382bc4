"""`python -m ascend_ops.benchmark`: each elementwise operator against TensorFlow's own.

Both arms run on the same tensor, alternately, so that a busy machine slows both. What is timed is
the op until its result is there, not the copy to NumPy. The speedup is the median of the pairs'
ratios with its 95 % interval, held to a bar. The report says what each size is bound by: the
launch, memory bandwidth (against the peak that is measured first) or computation.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import tensorflow as tf

from ascend_ops import tensorflow as ascend
from ascend_ops.abi import load_library
from ascend_ops.paired import Ratio, Verdict, ratio_of

SIZES: Final = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
DTYPES: Final = ("float32", "float16", "bfloat16")
# Name → (the operator, TensorFlow's own, tensors that it reads).
OPERATORS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], int]]] = {
    "sigmoid": (ascend.sigmoid, tf.sigmoid, 1),
    "sigmoid_grad": (
        ascend.sigmoid_grad,
        lambda y, dy: tf.raw_ops.SigmoidGrad(y=y, dy=dy),
        2,
    ),
}
PEAK_BYTES: Final = 64 << 20  # beyond the last-level cache that a thread gets
BANDWIDTH_BOUND: Final = 0.6  # of the peak: the same line as the profile analyser's
LAUNCH_BOUND: Final = 2.0  # times of the smallest size: the work itself is then less than half

# From here on the 16-bit types' conversions dominate TensorFlow's op: twice as fast is asked for.
NARROW_BAR: Final = 2.0
NARROW_BAR_ELEMENTS: Final = 65536

HEADER: Final = (
    f"{'operator':13} {'type':9} {'elements':>9} {'custom µs':>10} {'p95':>9} "
    f"{'native µs':>10} {'p95':>9} {'speedup (95 %)':>20} {'bar':>4} {'':7} {'GB/s':>6}  bound by"
)

Regime = Literal["launch", "bandwidth", "compute"]


@dataclass(frozen=True)
class Timing:
    """One arm at one size."""

    median_us: float
    p95_us: float
    bandwidth_gb_s: float


@dataclass(frozen=True)
class Row:
    """One operator, type and size; `ratio` is native time ÷ custom time, held to `bar`."""

    operator: str
    dtype: str
    elements: int
    custom: Timing
    native: Timing
    ratio: Ratio
    bar: float
    verdict: Verdict
    regime: Regime


@dataclass(frozen=True)
class BenchmarkReport:
    """All rows with what they were measured on."""

    devices: tuple[str, ...]
    cpus: int
    variant: str
    tensorflow: str
    peak_bandwidth_gb_s: float
    warm_up: int
    runs: int
    seed: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Settings:
    """How to measure; the defaults are those of the command line."""

    sizes: tuple[int, ...] = SIZES
    dtypes: tuple[str, ...] = DTYPES
    operators: tuple[str, ...] = tuple(OPERATORS)
    warm_up: int = 10
    runs: int = 100
    seed: int = 42


def measure_peak_bandwidth_gb_s() -> float:
    """Bytes read and written per second by copies on every CPU at once, in 10^9; best of five."""
    cpus = len(os.sched_getaffinity(0))
    pairs = [(np.ones(PEAK_BYTES, np.uint8), np.ones(PEAK_BYTES, np.uint8)) for _ in range(cpus)]
    best = 0.0
    with ThreadPoolExecutor(cpus) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            best = max(best, 2 * PEAK_BYTES * cpus / (time.perf_counter() - start))
    return best / 1e9


def _time_once(function: Callable[..., Any], tensors: list[Any]) -> float:
    start = time.perf_counter()
    function(*tensors)  # eager ops on DEVICE_CPU are done when they return
    return time.perf_counter() - start


def _timing(seconds: list[float], moved_bytes: int) -> Timing:
    median = float(np.median(seconds))
    return Timing(median * 1e6, float(np.percentile(seconds, 95)) * 1e6, moved_bytes / median / 1e9)


def _regime(custom: Timing, smallest: Timing, peak_gb_s: float) -> Regime:
    if custom.median_us < LAUNCH_BOUND * smallest.median_us:
        return "launch"
    return "bandwidth" if custom.bandwidth_gb_s >= BANDWIDTH_BOUND * peak_gb_s else "compute"


def _measure(
    operator: str, dtype: str, elements: int, settings: Settings
) -> tuple[Timing, Timing, Ratio]:
    custom, native, inputs = OPERATORS[operator]
    generator = np.random.default_rng(settings.seed)
    values = [generator.normal(size=elements) for _ in range(inputs)]
    tensors = [tf.cast(tf.constant(value, tf.float32), dtype) for value in values]
    arms: tuple[list[float], list[float]] = ([], [])
    order = list(zip(arms, (custom, native), strict=True))
    for run in range(settings.warm_up + settings.runs):
        for arm, function in order[:: 1 if run % 2 else -1]:
            seconds = _time_once(function, tensors)
            if run >= settings.warm_up:
                arm.append(seconds)
    moved = (inputs + 1) * elements * tensors[0].dtype.size
    return _timing(arms[0], moved), _timing(arms[1], moved), ratio_of(arms[1], arms[0])


def _bar(dtype: str, elements: int) -> float:
    return NARROW_BAR if dtype != "float32" and elements >= NARROW_BAR_ELEMENTS else 1.0


def run_benchmark(settings: Settings | None = None) -> BenchmarkReport:
    """Measures every operator, type and size; ValueError for settings that measure nothing."""
    chosen = settings or Settings()
    if chosen.runs < 1 or chosen.warm_up < 0 or min(chosen.sizes, default=0) < 1:
        raise ValueError("benchmark: runs and sizes are at least 1, warm_up at least 0")
    peak = measure_peak_bandwidth_gb_s()
    rows = []
    for operator in chosen.operators:
        for dtype in chosen.dtypes:
            smallest: Timing | None = None
            for elements in sorted(chosen.sizes):
                custom, native, ratio = _measure(operator, dtype, elements, chosen)
                smallest = smallest or custom
                bar = _bar(dtype, elements)
                regime = _regime(custom, smallest, peak)
                case = (operator, dtype, elements, custom, native)
                rows.append(Row(*case, ratio, bar, ratio.judge(bar), regime))
    return BenchmarkReport(
        devices=tuple(device.name for device in tf.config.list_physical_devices()),
        cpus=len(os.sched_getaffinity(0)),
        variant=load_library().variant,
        tensorflow=tf.__version__,
        peak_bandwidth_gb_s=peak,
        warm_up=chosen.warm_up,
        runs=chosen.runs,
        seed=chosen.seed,
        rows=tuple(rows),
    )


def format_table(report: BenchmarkReport) -> str:
    """The report as lines of text."""
    devices = ", ".join(report.devices)
    lines = [
        f"devices {devices} · {report.cpus} CPUs · kernels {report.variant}",
        f"TensorFlow {report.tensorflow} · peak {report.peak_bandwidth_gb_s:.1f} GB/s",
        HEADER,
    ]
    lines += [
        f"{row.operator:13} {row.dtype:9} {row.elements:9d} {row.custom.median_us:10.1f} "
        f"{row.custom.p95_us:9.1f} {row.native.median_us:10.1f} {row.native.p95_us:9.1f} "
        f"{row.ratio!s:>20} {row.bar:4.1f} {row.verdict:7} {row.custom.bandwidth_gb_s:6.1f}  "
        f"{row.regime}"
        for row in report.rows
    ]
    return "\n".join(lines)


def main() -> int:
    """Prints the table; writes benchmark.json and benchmark.png into --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder of the two files")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--operators", nargs="+", default=list(OPERATORS), choices=list(OPERATORS))
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    a = parser.parse_args()
    settings = Settings(
        tuple(a.sizes), tuple(a.dtypes), tuple(a.operators), a.warm_up, a.runs, a.seed
    )
    report = run_benchmark(settings)
    a.output.mkdir(parents=True, exist_ok=True)
    path = a.output / "benchmark.json"
    path.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    print(format_table(report))
    try:
        from ascend_ops.benchmark_plot import plot
    except ModuleNotFoundError as error:
        print(f"no plot: {error}. Install it: pip install 'ascend-ops[plot]'", file=sys.stderr)
        return 0
    plot(report, a.output / "benchmark.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
