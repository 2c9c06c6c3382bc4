"""Reference, cases and tolerances of `sigmoid_grad`."""

from typing import Any

import numpy as np
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

# Pairs (y, dy) of extremes.
SPECIAL = ((0.0, 1.0), (1.0, 1.0), (0.5, 2.0), (np.nan, 1.0), (0.25, np.inf), (0.5, np.nan))


def reference(y: NDArray[np.float64], dy: NDArray[np.float64]) -> NDArray[np.float64]:
    """y · (1 − y) · dy in float64."""
    with np.errstate(invalid="ignore"):
        return y * (1.0 - y) * dy


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """y uniform in (0, 1), as a sigmoid gives it, and dy normal(0, 1); extremes first."""
    y = generator.uniform(0.0, 1.0, length)
    dy = generator.normal(0.0, 1.0, length)
    for index, (special_y, special_dy) in enumerate(SPECIAL[:length]):
        y[index], dy[index] = special_y, special_dy
    return y.astype(dtype), dy.astype(dtype)


SPEC = OperatorSpec(
    name="sigmoid_grad",
    reference=reference,
    inputs=inputs,
    lengths=(0, 1, 7, 8, 9, 31, 32, 33, 6655, 6657, 32767, 32768, 32769, 100003),
    tolerances={
        "float32": Tolerance(ulps=2.0, floor=2.0**-126),
        "float16": Tolerance(ulps=1.0),
        "bfloat16": Tolerance(ulps=1.0, floor=2.0**-126),
    },
)
