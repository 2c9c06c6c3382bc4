"""`python -m ascend_ops.operator_bench NAME…`: times elementwise operators without TensorFlow.

Beside the time on this CPU stands what the operator is estimated to take on an NPU core by core,
in cycles of cpusim's model: an estimate, no measurement.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ascend_ops import numpy_ops
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.spec import load_spec

SIZES: Final = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
WARM_UP: Final = 10
RUNS: Final = 100
SEED: Final = 42


@dataclass(frozen=True)
class BenchRow:
    """One operator, type and size: time on this CPU, and estimated cycles of an NPU."""

    operator: str
    dtype: str
    elements: int
    median_us: float
    p95_us: float
    bandwidth_gb_s: float
    estimated_cycles: float


def bench_operator(name: str, sizes: tuple[int, ...], runs: int) -> list[BenchRow]:
    """Each type and size of one elementwise operator; a ValueError for another kind of operator."""
    if not load_spec(name).elementwise:
        raise ValueError(f"{name} is not elementwise: its own benchmark times it")
    return [_bench(name, dtype, size, runs) for dtype in DTYPES for size in sizes]


def _bench(name: str, dtype: np.dtype[Any], elements: int, runs: int) -> BenchRow:
    arrays = list(load_spec(name).inputs(elements, dtype, np.random.default_rng(SEED)))
    times = []
    for run in range(WARM_UP + runs):
        start = time.perf_counter()
        numpy_ops.elementwise(name, arrays)
        if run >= WARM_UP:
            times.append(time.perf_counter() - start)
    output = np.empty_like(arrays[0])
    estimate = (
        load_library("checked").operators[name].estimate([*arrays, output], dtype, [elements])
    )
    median = float(np.median(times))
    moved = (len(arrays) + 1) * elements * dtype.itemsize
    return BenchRow(
        name,
        dtype.name,
        elements,
        median * 1e6,
        float(np.percentile(times, 95)) * 1e6,
        moved / median / 1e9,
        estimate.total,
    )


def main() -> int:
    """Prints the rows of all named operators as a JSON list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--runs", type=int, default=RUNS)
    a = parser.parse_args()
    rows = [row for name in a.operators for row in bench_operator(name, tuple(a.sizes), a.runs)]
    print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
