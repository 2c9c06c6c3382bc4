"""What the NumPy front end says about arguments that it cannot take."""

from collections.abc import Callable
from typing import Any

import ascend_ops
import numpy as np
import pytest
from ascend_ops import cycles, numpy_ops
from ascend_ops.abi import load_library
from ascend_ops.build_record import read_build_record
from ascend_ops.errors import LibraryError

X = np.zeros(3, np.float32)
TABLE = np.zeros((2, 3), np.float32)
IMAGE, KERNEL = np.zeros((1, 4, 4, 2), np.float32), np.zeros((3, 3, 2, 3), np.float32)

# What is called → the beginning of what it says.
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a list": (
        lambda: ascend_ops.sigmoid([1.0]),  # type: ignore[arg-type]
        TypeError,
        "sigmoid: argument 1 is of type list, and the operators take NumPy arrays. Convert it",
    ),
    "nothing": (
        lambda: ascend_ops.matmul_bias_act(TABLE, None, X),  # type: ignore[arg-type]
        TypeError,
        "matmul_bias_act: argument 2 is of type NoneType, and the operators take NumPy arrays.",
    ),
    "float indices": (
        lambda: ascend_ops.gather_add_relu(TABLE, np.array([1.0]), X),
        TypeError,
        "gather_add_relu: indices have dtype float64; they must be whole numbers. Cast them",
    ),
    "an index outside": (
        lambda: ascend_ops.gather_add_relu(TABLE, np.array([[0], [2]]), X),
        IndexError,
        "gather_add_relu: index 2 at position (1, 0) is outside the table of 2 rows; correct the",
    ),
    "an unknown operator": (
        lambda: numpy_ops.elementwise("tanh", [X]),
        ValueError,
        "no elementwise operator is called 'tanh'; use one of sigmoid, sigmoid_cpusim, sigmoid_g",
    ),
    "another kind of operator": (
        lambda: numpy_ops.elementwise("matmul_bias_act", [X, X, X]),
        ValueError,
        "matmul_bias_act is not elementwise; call ascend_ops.matmul_bias_act",
    ),
    "too few inputs": (
        lambda: numpy_ops.elementwise("sigmoid_grad", [X]),
        ValueError,
        "sigmoid_grad: 1 inputs are given; it takes 2 of one shape and dtype",
    ),
    "no inputs": (
        lambda: numpy_ops.elementwise("sigmoid", []),
        ValueError,
        "sigmoid: 0 inputs are given; it takes 1 of one shape and dtype",
    ),
    "one step": (
        lambda: ascend_ops.conv2d_bias_relu(IMAGE, KERNEL, X, strides=2),  # type: ignore[arg-type]
        ValueError,
        "conv2d_bias_relu: strides is 2; it must be two whole numbers of at least 1, along",
    ),
    "three steps": (
        lambda: ascend_ops.conv2d_bias_relu(IMAGE, KERNEL, X, dilations=(1, 1, 1)),  # type: ignore[arg-type]
        ValueError,
        "conv2d_bias_relu: dilations is (1, 1, 1); it must be two whole numbers of at least 1",
    ),
    "a padding": (
        lambda: ascend_ops.conv2d_bias_relu(IMAGE, KERNEL, X, padding="FULL"),  # type: ignore[arg-type]
        ValueError,
        "conv2d_bias_relu: padding is 'FULL'; it must be one of SAME, VALID",
    ),
    "a front end": (
        lambda: ascend_ops.selftest("torch"),  # type: ignore[arg-type]
        ValueError,
        "selftest: no front end 'torch'; use one of auto, numpy, tensorflow",
    ),
    "cycles of nothing": (
        lambda: cycles.compare(0),
        ValueError,
        "cycles: elements is 0; it must be a whole number of at least 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused_with_what_to_give(name: str) -> None:
    call, kind, told = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("variant", ["x86-64-v9", "../checked", ""])
def test_a_build_that_there_is_not_is_told_with_those_that_there_are(variant: str) -> None:
    with pytest.raises(LibraryError) as caught:
        load_library(variant)
    assert str(caught.value) == (
        f"there is no build of the kernels called {variant!r}: choose one of "
        f"{', '.join(read_build_record().variants)}, or none for the fastest that this CPU can run"
    )
