"""Reference, cases and tolerances of `matmul_bias_act`."""

from typing import Any

import numpy as np
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

DEPTH = 67  # no multiple of a fractal in any type
COLUMNS = 45


def reference(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    activation: str = "none",
) -> NDArray[np.float64]:
    """activation(a · b + bias) in float64."""
    y = a @ b + bias
    if activation == "relu":
        return np.where(y < 0, 0.0, y)
    if activation == "sigmoid":
        small = np.exp(-np.abs(y))
        y = np.where(y >= 0, 1.0, small) / (1.0 + small)
    return np.asarray(y, np.float64)


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """A left matrix of at most `length` elements, DEPTH wide, with a right matrix and a bias."""
    shapes = ((length // DEPTH, DEPTH), (DEPTH, COLUMNS), (COLUMNS,))
    return tuple(generator.uniform(-1, 1, shape).astype(dtype) for shape in shapes)


# A float sum of n products errs by at most n · 2^-24 · Σ|a·b| (N. Higham, Accuracy and Stability of
# Numerical Algorithms, 2002, section 3.1, to first order). Here n = 68 and Σ|a·b| < 34: products of
# two uniform numbers are 1/4 on average, and no sum of 67 of them came near twice that.
SUM_ERROR = 68 * 2.0**-24 * 34

SPEC = OperatorSpec(
    name="matmul_bias_act",
    reference=reference,
    inputs=inputs,
    # Rows: none, one, around a fractal, around a tile of 128, several tiles.
    lengths=tuple(DEPTH * rows for rows in (0, 1, 2, 15, 16, 17, 127, 128, 129, 700)),
    tolerances={
        "float32": Tolerance(ulps=2.0, floor=SUM_ERROR),
        "float16": Tolerance(ulps=1.0, floor=SUM_ERROR),
        "bfloat16": Tolerance(ulps=1.0, floor=SUM_ERROR),
    },
    elementwise=False,
)
