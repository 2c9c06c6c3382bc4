"""`python -m ascend_ops.fused_benchmark`: product and convolution against TensorFlow's fused ones.

Both arms are tf.functions of the same tensors, called in turn, so that a busy machine slows both;
TensorFlow's is the unfused graph, which its optimiser fuses (_FusedMatMul, _FusedConv2D, oneDNN).
The ratio is the median of the pairs' ratios with its 95 % interval. The roofline is what the
micro-kernel reaches in the cache on one CPU, times the CPUs.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from ascend_ops import tensorflow as ascend
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.paired import Ratio, Verdict, ratio_of

SIZES: Final = (256, 512, 1024, 2048)
TYPES: Final = ("float32", "float16", "bfloat16")
# Image side, channels in and out, kernel side: layers of a residual network, and one of 1 × 1.
CONVS: Final = ((56, 64, 64, 3), (28, 128, 128, 3), (14, 256, 256, 3), (28, 256, 512, 1))
CONV_BATCH: Final = 8
PEAK_SIZES: Final = (252, 256, 256)  # rows of a task, columns and depth that stay in the cache

HEADER: Final = (
    f"{'case':34} {'type':9} {'ours µs':>10} {'TF µs':>10} {'ratio (95 %)':>20} {'':7} "
    f"{'GFLOP/s':>8} {'of peak':>8}"
)


@dataclass(frozen=True)
class FusedRow:
    """One case; `ratio` is TensorFlow's time over ours, above 1 where ours is faster."""

    case: str
    dtype: str
    custom_us: float
    native_us: float
    ratio: Ratio
    verdict: Verdict
    gflop_s: float
    of_peak: float


@dataclass(frozen=True)
class Case:
    """Two functions of the same tensors, and the floating-point operations of a call."""

    name: str
    custom: Callable[..., Any]
    native: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    operations: float


def matmul_case(size: int) -> Case:
    """Relu(a · b + bias) of square matrices."""
    return Case(
        f"matmul {size}",
        lambda a, b, bias: ascend.matmul_bias_act(a, b, bias, "relu"),
        lambda a, b, bias: tf.nn.relu(tf.nn.bias_add(tf.matmul(a, b), bias)),
        ((size, size), (size, size), (size,)),
        2.0 * size**3,
    )


def conv_case(side: int, channels: int, out: int, kernel: int) -> Case:
    """Relu(conv2d(x, kernel) + bias) with SAME padding."""
    return Case(
        f"conv {side}x{side}x{channels} to {out}, {kernel}x{kernel}",
        # Not the function itself: tf.function would bind its defaults in each call, for 0.25 ms.
        lambda x, w, bias: ascend.conv2d_bias_relu(x, w, bias),  # noqa: PLW0108
        lambda x, w, bias: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), bias)),
        ((CONV_BATCH, side, side, channels), (kernel, kernel, channels, out), (out,)),
        2.0 * CONV_BATCH * side * side * channels * out * kernel * kernel,
    )


def measure_peak_gflop_s(runs: int = 200) -> float:
    """What the float kernel does in the cache on one CPU, times the CPUs of this process."""
    m, n, k = PEAK_SIZES
    arrays = [np.ones(shape, np.float32) for shape in ((m, k), (k, n), (n,), (m, n))]
    operator = load_library().operators["matmul_bias_act"]
    best = min(
        _seconds(lambda: operator.run(arrays, DTYPES[0], [m, n, k, 0, 0, 0], 1))
        for _ in range(runs)
    )
    return 2.0 * m * n * k / best / 1e9 * len(os.sched_getaffinity(0))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(case: Case, dtype: str, runs: int, peak_gflop_s: float) -> FusedRow:
    """Runs the arms in turn, changing who is first, after five calls of each to warm up."""
    generator = np.random.default_rng(42)
    values = [generator.normal(size=shape).astype(np.float32) for shape in case.shapes]
    tensors = [tf.cast(tf.constant(value), dtype) for value in values]
    arms = [tf.function(case.custom), tf.function(case.native)]
    times = np.empty((runs, 2))
    for run in range(-5, runs):
        for arm in (0, 1) if run % 2 else (1, 0):
            seconds = _seconds(lambda arm=arm: arms[arm](*tensors))  # type: ignore[misc]
            if run >= 0:
                times[run, arm] = seconds
    ratio = ratio_of(times[:, 1], times[:, 0])
    ours, theirs = np.median(times, axis=0)
    rate = case.operations / float(ours) / 1e9
    return FusedRow(
        case.name,
        dtype,
        float(ours) * 1e6,
        float(theirs) * 1e6,
        ratio,
        ratio.judge(),
        rate,
        rate / peak_gflop_s,
    )


def format_row(row: FusedRow) -> str:
    """A line of the table."""
    return (
        f"{row.case:34} {row.dtype:9} {row.custom_us:10.0f} {row.native_us:10.0f} "
        f"{row.ratio!s:>20} {row.verdict:7} {row.gflop_s:8.0f} {row.of_peak:8.0%}"
    )


def main() -> int:
    """Prints the table row by row, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=TYPES)
    parser.add_argument("--no-convolutions", action="store_true")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if a.runs < 1 or min(a.sizes, default=1) < 1:
        parser.error("--runs and --sizes are at least 1")
    peak = measure_peak_gflop_s()
    cases = [matmul_case(size) for size in a.sizes]
    cases += [] if a.no_convolutions else [conv_case(*shape) for shape in CONVS]
    if not a.json:
        print(f"{load_library().variant}, peak {peak:.0f} GFLOP/s in the cache\n{HEADER}")
    rows = []
    for dtype in a.dtypes:
        for case in cases:
            rows.append(measure(case, dtype, a.runs, peak))
            if not a.json:
                print(format_row(rows[-1]), flush=True)
    if a.json:
        print(json.dumps({"peak_gflop_s": peak, "rows": [asdict(row) for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
