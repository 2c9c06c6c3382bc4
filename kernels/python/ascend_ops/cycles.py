"""`python -m ascend_ops.cycles`: the real sigmoid kernel against a naive one, in estimated cycles.

The estimate is cpusim's: bytes that are copied, vector repeats, scalar accesses and what each
waits for. It compares the structure of kernels; it is no measurement of an NPU.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass

import numpy as np

from ascend_ops.abi import CycleEstimate, load_library
from ascend_ops.arguments import check_counts


@dataclass(frozen=True)
class CycleComparison:
    """Both kernels on one length; `vector_saving` is the part of vector work that is saved."""

    elements: int
    optimised: CycleEstimate
    naive: CycleEstimate
    speedup: float
    vector_saving: float


def estimate_sigmoid(operator: str, elements: int) -> CycleEstimate:
    """The estimate of `sigmoid` or `sigmoid_naive` on so many floats."""
    x = np.linspace(-5, 5, elements, dtype=np.float32)
    y = np.empty_like(x)
    return load_library("checked").operators[operator].estimate([x, y], x.dtype, [elements])


def compare(elements: int) -> CycleComparison:
    """Both kernels on `elements` floats, at least one."""
    check_counts("cycles", elements=elements)
    optimised = estimate_sigmoid("sigmoid", elements)
    naive = estimate_sigmoid("sigmoid_naive", elements)
    saving = 1 - optimised.busy["vector"] / naive.busy["vector"]
    return CycleComparison(elements, optimised, naive, naive.total / optimised.total, saving)


def main() -> int:
    """Prints one JSON line for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[65536, 1048576, 4194304])
    for elements in parser.parse_args().sizes:
        print(json.dumps(asdict(compare(elements))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
