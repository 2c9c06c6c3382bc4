"""Reference, cases and tolerances of `conv2d_bias_relu`."""

from typing import Any

import numpy as np
from ascend_ops.fused_ops import conv_axis
from ascend_ops.spec import Arguments, OperatorSpec, Tolerance
from numpy.typing import NDArray

SIDE = 11
CHANNELS = 5  # no multiple of a fractal in any type
OUT_CHANNELS = 19
KERNEL = 3


def reference(
    x: NDArray[np.float64],
    kernel: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    padding: Any = "SAME",
    activation: str = "relu",
) -> NDArray[np.float64]:
    """The convolution in float64: a product for each position of the kernel, on a padded image."""
    sizes = [
        conv_axis(x.shape[i + 1], kernel.shape[i], strides[i], dilations[i], padding)
        for i in range(2)
    ]
    (rows, top), (columns, left) = sizes
    reach = [(kernel.shape[i] - 1) * dilations[i] + 1 for i in range(2)]
    bottom = max((rows - 1) * strides[0] + reach[0] - x.shape[1] - top, 0)
    right = max((columns - 1) * strides[1] + reach[1] - x.shape[2] - left, 0)
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    y = np.zeros((x.shape[0], rows, columns, kernel.shape[3])) + bias
    for i in range(kernel.shape[0]):
        for j in range(kernel.shape[1]):
            first = (i * dilations[0], j * dilations[1])
            seen = padded[:, first[0] :: strides[0], first[1] :: strides[1]]
            y += seen[:, :rows, :columns] @ kernel[i, j]
    if activation == "relu":
        return np.where(y < 0, 0.0, y)
    return 1.0 / (1.0 + np.exp(-y)) if activation == "sigmoid" else y


def inputs(length: int, dtype: np.dtype[Any], generator: np.random.Generator) -> Arguments:
    """Images of at most `length` elements together, with a kernel of 3 × 3 and a bias."""
    batch = length // (SIDE * SIDE * CHANNELS)
    shapes = (
        (batch, SIDE, SIDE, CHANNELS),
        (KERNEL, KERNEL, CHANNELS, OUT_CHANNELS),
        (OUT_CHANNELS,),
    )
    return tuple(generator.uniform(-1, 1, shape).astype(dtype) for shape in shapes)


# As for matmul_bias_act: 46 terms, the sum of whose sizes stays below 23.
SUM_ERROR = 46 * 2.0**-24 * 23

SPEC = OperatorSpec(
    name="conv2d_bias_relu",
    reference=reference,
    inputs=inputs,
    lengths=tuple(SIDE * SIDE * CHANNELS * batch for batch in (0, 1, 2, 3, 17)),
    tolerances={
        "float32": Tolerance(ulps=2.0, floor=SUM_ERROR),
        "float16": Tolerance(ulps=1.0, floor=SUM_ERROR),
        "bfloat16": Tolerance(ulps=1.0, floor=SUM_ERROR),
    },
    elementwise=False,
)
