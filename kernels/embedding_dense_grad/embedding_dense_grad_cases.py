"""Reference, cases and tolerances of `embedding_dense_grad`."""

from typing import Any

import numpy as np
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

WIDTH = 24  # no multiple of the 32-byte block in the 16-bit types
LOOKUPS_A_ROW = 8  # so that most rows are looked up several times, and some never


def reference(
    grad: NDArray[np.float64],
    indices: NDArray[np.int64],
    num_weights: int,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
) -> NDArray[np.float64]:
    """The sum of the rows of `grad` by index, in float64, by NumPy's unbuffered add."""
    table = np.zeros((num_weights, grad.shape[-1]))
    flat = indices.ravel()
    np.add.at(table, flat, grad.reshape(-1, grad.shape[-1]))
    if scale_grad_by_freq:
        table /= np.maximum(np.bincount(flat, minlength=num_weights), 1)[:, None]
    if padding_idx is not None:
        table[padding_idx] = 0.0
    return table


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """`length` elements of gradient: rows of WIDTH, for a table of an eighth as many rows."""
    lookups = length // WIDTH
    rows = max(1, lookups // LOOKUPS_A_ROW)
    indices = generator.integers(0, rows, lookups)
    return generator.normal(size=(lookups, WIDTH)).astype(dtype), indices, rows


# Sums of about eight values of size 1 in float32: each addition errs by up to 2^-24 of the partial
# sum, and where values cancel that is more than an ulp of the result.
SUM_ERROR = 5e-6

SPEC = OperatorSpec(
    name="embedding_dense_grad",
    reference=reference,
    inputs=inputs,
    lengths=(0, 24, 48, 24 * 40, 24 * 2047, 24 * 2049, 100003),
    tolerances={
        "float32": Tolerance(ulps=2.0, floor=SUM_ERROR),
        "float16": Tolerance(ulps=1.0, floor=SUM_ERROR),
        "bfloat16": Tolerance(ulps=1.0, floor=SUM_ERROR),
    },
    elementwise=False,
)
