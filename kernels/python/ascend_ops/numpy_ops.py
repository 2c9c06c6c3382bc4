"""The operators on NumPy arrays: what a user without TensorFlow has, and the tests' front end."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_ops.abi import DTYPES, load_library

# Below this many elements a second thread costs more to start than it saves.
ELEMENTS_A_THREAD = 65536


def _check_dtype(operator: str, array: NDArray[Any]) -> None:
    if array.dtype not in DTYPES:
        raise TypeError(
            f"{operator}: dtype {array.dtype} is not supported; cast to float32, float16 or "
            "bfloat16 (ml_dtypes)"
        )


def _threads(elements: int) -> int:
    return max(1, min(len(os.sched_getaffinity(0)), elements // ELEMENTS_A_THREAD))


def _elementwise(operator: str, inputs: list[NDArray[Any]], variant: str | None) -> NDArray[Any]:
    first = inputs[0]
    for array in inputs:
        _check_dtype(operator, array)
        if array.dtype != first.dtype or array.shape != first.shape:
            raise ValueError(
                f"{operator}: the inputs must have one shape and dtype, not "
                f"{first.shape} {first.dtype} and {array.shape} {array.dtype}"
            )
    contiguous = [np.ascontiguousarray(array) for array in inputs]
    output = np.empty(first.shape, first.dtype)
    load_library(variant).operators[operator].run(
        [*contiguous, output], first.dtype, [first.size], _threads(first.size)
    )
    return output


def sigmoid(x: NDArray[Any], *, variant: str | None = None) -> NDArray[Any]:
    """1 / (1 + e^-x), elementwise: the shape and dtype of `x` (float32, float16 or bfloat16).

    `variant` chooses the build, such as "checked". TypeError for another dtype.
    """
    return _elementwise("sigmoid", [x], variant)


def sigmoid_grad(y: NDArray[Any], dy: NDArray[Any], *, variant: str | None = None) -> NDArray[Any]:
    """y · (1 − y) · dy, where `y` is the sigmoid's result: its gradient for x.

    `y` and `dy` have one shape and dtype, and so has the result; ValueError otherwise.
    """
    return _elementwise("sigmoid_grad", [y, dy], variant)
