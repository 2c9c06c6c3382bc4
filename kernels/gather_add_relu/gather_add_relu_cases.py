"""Reference, cases and tolerances of `gather_add_relu`."""

from typing import Any

import numpy as np
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

WIDTH = 24  # no multiple of the 32-byte block in the 16-bit types
LOOKUPS_A_ROW = 8  # so that rows are looked up several times


def reference(
    table: NDArray[np.float64], indices: NDArray[np.int64], addend: NDArray[np.float64]
) -> NDArray[np.float64]:
    """max(table[indices] + addend, 0) by NumPy, which counts negative indices from the end."""
    exact: NDArray[np.float64] = np.maximum(table[indices] + addend, 0.0)
    return exact


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """A result of `length` elements, in rows of WIDTH; the addend is a row, or has its shape.

    Which of both depends on the length's parity, so that the lengths below have both.
    """
    lookups = length // WIDTH
    rows = max(1, lookups // LOOKUPS_A_ROW)
    indices = generator.integers(-rows, rows, lookups)
    shape = (WIDTH,) if length % 2 else (lookups, WIDTH)
    table = generator.normal(size=(rows, WIDTH)).astype(dtype)
    return table, indices, generator.normal(size=shape).astype(dtype)


# One addition, rounded once: the result is the correctly rounded one. The bound leaves room for a
# SoC that adds half in half.
SPEC = OperatorSpec(
    name="gather_add_relu",
    reference=reference,
    inputs=inputs,
    lengths=(0, 24, 25, 48, 49, 24 * 40 + 1, 24 * 2047, 24 * 2049 + 1, 100003, 100004),
    tolerances={name: Tolerance(ulps=1.0) for name in ("float32", "float16", "bfloat16")},
    elementwise=False,
)
