"""Reference, cases and tolerances of `sigmoid`; installed as ascend_ops.cases.sigmoid_cases."""

from typing import Any

import numpy as np
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

# Extremes first: each must come out as the type's own rounding of the exact value.
SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e-40, 88.0, -88.0, 100.0, -100.0)


def reference(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + e^-x) in float64, in the form that does not overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """One array of `length` elements: normal(0, 4), and the extremes where there is room."""
    x = generator.normal(0.0, 4.0, length)
    x[: len(SPECIAL)] = SPECIAL[:length]
    return (x.astype(dtype),)


SPEC = OperatorSpec(
    name="sigmoid",
    reference=reference,
    inputs=inputs,
    # Around the 32-byte block, the largest tile, the tile that fits the Unified Buffer, and cores.
    lengths=(0, 1, 7, 8, 9, 31, 32, 33, 9343, 9345, 32767, 32768, 32769, 100003),
    tolerances={
        # Results below the smallest normal float may be flushed to zero, as the NPU does.
        "float32": Tolerance(ulps=2.0, floor=2.0**-126),
        "float16": Tolerance(ulps=1.0),
        "bfloat16": Tolerance(ulps=1.0, floor=2.0**-126),
    },
)
