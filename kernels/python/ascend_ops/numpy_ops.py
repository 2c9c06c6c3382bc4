"""The operators on NumPy arrays: what a user without TensorFlow has, and the tests' front end."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_ops.abi import DTYPES, load_library
from ascend_ops.arguments import CORRECT, check_arrays, check_counts, check_indices, check_padding
from ascend_ops.fused_ops import conv2d_bias_relu, matmul_bias_act

__all__ = [
    "conv2d_bias_relu",
    "elementwise",
    "embedding_dense_grad",
    "gather_add_relu",
    "matmul_bias_act",
    "sigmoid",
    "sigmoid_grad",
]

# Below this many elements a second thread costs more to start than it saves.
ELEMENTS_A_THREAD = 65536
NOT_ELEMENTWISE = (
    "conv2d_bias_relu",
    "embedding_dense_grad",
    "gather_add_relu",
    "matmul_bias_act",
)


def _check_dtype(operator: str, array: Any) -> None:
    check_arrays(operator, array)
    if array.dtype not in DTYPES:
        raise TypeError(
            f"{operator}: dtype {array.dtype} is not supported; cast to float32, float16 or "
            "bfloat16 (ml_dtypes)"
        )


def _threads(elements: int) -> int:
    return max(1, min(len(os.sched_getaffinity(0)), elements // ELEMENTS_A_THREAD))


def elementwise(
    operator: str, inputs: list[NDArray[Any]], variant: str | None = None
) -> NDArray[Any]:
    """Any elementwise operator by its name, a user's own among them; arrays of one shape and dtype.

    ValueError names the operators that there are when this is none of them.
    """
    operators = load_library(variant).operators
    if operator not in operators:
        known = [name for name in operators if name.removesuffix("_cpusim") not in NOT_ELEMENTWISE]
        raise ValueError(
            f"no elementwise operator is called {operator!r}; use one of {', '.join(sorted(known))}"
        )
    if operator.removesuffix("_cpusim") in NOT_ELEMENTWISE:
        raise ValueError(f"{operator} is not elementwise; call ascend_ops.{operator}")
    wanted = operators[operator].tensor_count - 1  # without the result
    if len(inputs) != wanted:
        raise ValueError(
            f"{operator}: {len(inputs)} inputs are given; it takes {wanted} of one shape and dtype"
        )
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
    operators[operator].run([*contiguous, output], first.dtype, [first.size], _threads(first.size))
    return output


def embedding_dense_grad(
    grad: NDArray[Any],
    indices: NDArray[np.integer[Any]],
    num_weights: int,
    *,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    variant: str | None = None,
) -> NDArray[Any]:
    """The gradient of an embedding table: row i is the sum of the rows of `grad` looked up at i.

    `grad` has the shape of `indices` and one axis more, the width; the result is
    [num_weights, width] in the dtype of `grad`, summed in float32 in the order of the lookups.
    The row `padding_idx` stays zero; with `scale_grad_by_freq` a row is divided by how often it
    was looked up. IndexError for an index outside the table, before anything is written.
    """
    _check_dtype("embedding_dense_grad", grad)
    check_indices("embedding_dense_grad", indices)
    check_counts("embedding_dense_grad", 0, num_weights=num_weights)
    check_padding("embedding_dense_grad", padding_idx, num_weights)
    if grad.shape[:-1] != indices.shape or grad.ndim == 0:
        raise ValueError(
            f"embedding_dense_grad: grad has shape {grad.shape}, which is not the shape of the "
            f"indices, {indices.shape}, and a width"
        )
    flat = np.ascontiguousarray(indices).ravel()
    outside = np.flatnonzero((flat < 0) | (flat >= num_weights))
    if outside.size:
        raise IndexError(
            f"embedding_dense_grad: index {flat[outside[0]]} at position {outside[0]} is outside "
            f"the table of {num_weights} rows{CORRECT}"
        )
    width = grad.shape[-1]
    table = np.empty((num_weights, width), grad.dtype)
    padding = -1 if padding_idx is None else padding_idx
    load_library(variant).operators["embedding_dense_grad"].run(
        [np.ascontiguousarray(grad), flat.astype(np.int32), table],
        grad.dtype,
        [flat.size, num_weights, width, padding, int(scale_grad_by_freq)],
        _threads(table.size + grad.size),
    )
    return table


def gather_add_relu(
    table: NDArray[Any],
    indices: NDArray[np.integer[Any]],
    addend: NDArray[Any],
    *,
    variant: str | None = None,
) -> NDArray[Any]:
    """max(table[indices] + addend, 0): rows of `table` by index, added to and clipped in one pass.

    `table` has rows along its first axis; the result has the shape of `indices` and then that of
    a row, in the dtype of `table`. `addend` has the shape of a row or of the result, and the same
    dtype. A negative index counts from the end; IndexError for one outside the table, and
    ValueError for an addend of another shape, before anything is computed.
    """
    check_arrays("gather_add_relu", table, indices, addend)
    _check_dtype("gather_add_relu", table)
    check_indices("gather_add_relu", indices)
    if table.ndim == 0 or addend.dtype != table.dtype:
        raise ValueError(
            f"gather_add_relu: the table has shape {table.shape} and dtype {table.dtype}, the "
            f"addend dtype {addend.dtype}; the table needs rows, and both one dtype"
        )
    row, shape = table.shape[1:], indices.shape + table.shape[1:]
    if addend.shape not in (row, shape):
        raise ValueError(
            f"gather_add_relu: the addend has shape {addend.shape}; it must have that of a row, "
            f"{row}, or of the result, {shape}"
        )
    outside = np.argwhere((indices < -len(table)) | (indices >= len(table)))
    if outside.size:
        raise IndexError(
            f"gather_add_relu: index {indices[tuple(outside[0])]} at position "
            f"{tuple(outside[0].tolist())} is outside the table of {len(table)} rows{CORRECT}"
        )
    narrow = indices.dtype == np.int32
    flat = np.ascontiguousarray(indices, np.int32 if narrow else np.int64)
    y = np.empty(shape, table.dtype)
    width = int(np.prod(row, dtype=np.int64))
    load_library(variant).operators["gather_add_relu"].run(
        [np.ascontiguousarray(table), flat, np.ascontiguousarray(addend), y],
        table.dtype,
        [flat.size, len(table), width, int(addend.shape == row), flat.itemsize],
        _threads(y.size),
    )
    return y


def sigmoid(x: NDArray[Any], *, variant: str | None = None) -> NDArray[Any]:
    """1 / (1 + e^-x), elementwise: the shape and dtype of `x` (float32, float16 or bfloat16).

    `variant` chooses the build, such as "checked". TypeError for another dtype.
    """
    return elementwise("sigmoid", [x], variant)


def sigmoid_grad(y: NDArray[Any], dy: NDArray[Any], *, variant: str | None = None) -> NDArray[Any]:
    """y · (1 − y) · dy, where `y` is the sigmoid's result: its gradient for x.

    `y` and `dy` have one shape and dtype, and so has the result; ValueError otherwise.
    """
    return elementwise("sigmoid_grad", [y, dy], variant)
