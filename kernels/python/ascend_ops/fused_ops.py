"""The fused operators on NumPy arrays: matrix product and convolution with bias and activation."""

import os
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ascend_ops.abi import DTYPES, load_library
from ascend_ops.arguments import check_arrays, check_choice, check_steps

Activation = Literal["none", "relu", "sigmoid"]
Padding = Literal["SAME", "VALID"]
ACTIVATIONS: Final = ("none", "relu", "sigmoid")
PADDINGS: Final = ("SAME", "VALID")
# Below this many multiplications a second thread costs more to start than it saves.
PRODUCTS_A_THREAD: Final = 1 << 20


def _check(operator: str, arrays: list[NDArray[Any]], ranks: list[int], wanted: str) -> None:
    check_arrays(operator, *arrays)
    first = arrays[0]
    if first.dtype not in DTYPES:
        raise TypeError(
            f"{operator}: dtype {first.dtype} is not supported; cast to float32, float16 or "
            "bfloat16 (ml_dtypes)"
        )
    shapes = ", ".join(f"{array.shape} {array.dtype}" for array in arrays)
    if any(a.ndim != rank or a.dtype != first.dtype for a, rank in zip(arrays, ranks, strict=True)):
        raise ValueError(
            f"{operator}: the arguments are {shapes}; they must be {wanted}, all of one dtype"
        )


def _activation_number(operator: str, activation: str) -> int:
    check_choice(operator, ACTIVATIONS, activation=activation)
    return ACTIVATIONS.index(activation)


def _run(
    operator: str, arrays: list[NDArray[Any]], sizes: list[int], products: int, variant: str | None
) -> None:
    contiguous = [np.ascontiguousarray(array) for array in arrays[:-1]]
    threads = max(1, min(len(os.sched_getaffinity(0)), products // PRODUCTS_A_THREAD))
    operators = load_library(variant).operators
    operators[operator].run([*contiguous, arrays[-1]], arrays[0].dtype, sizes, threads)


def matmul_bias_act(
    a: NDArray[Any],
    b: NDArray[Any],
    bias: NDArray[Any],
    *,
    activation: Activation = "none",
    transpose_a: bool = False,
    transpose_b: bool = False,
    variant: str | None = None,
    emulate: bool = False,
) -> NDArray[Any]:
    """activation(a · b + bias): [m, k] by [k, n] and a bias [n], all of one dtype.

    Sums are float32 for each dtype, and rounded once to it. `transpose_a` and `transpose_b` say
    that a matrix is given as [k, m] or [n, k]. `emulate` runs the Ascend C kernel on cpusim, as
    the variant "checked" always does, instead of the CPU backend. ValueError for shapes that do
    not fit, TypeError for another dtype.
    """
    name = "matmul_bias_act"
    wanted = "[m, k], [k, n] (each transposed where it is asked for) and [n]"
    _check(name, [a, b, bias], [2, 2, 1], wanted)
    m, depth = a.shape[::-1] if transpose_a else a.shape
    k, n = b.shape[::-1] if transpose_b else b.shape
    if depth != k or bias.shape != (n,):
        raise ValueError(
            f"{name}: the shapes are {a.shape}, {b.shape}, {bias.shape}; want {wanted}"
        )
    y = np.empty((m, n), a.dtype)
    number = _activation_number(name, activation)
    sizes = [m, n, k, int(transpose_a), int(transpose_b), number]
    _run(_kernel(name, variant, emulate), [a, b, bias, y], sizes, m * n * k, variant)
    return y


def conv2d_bias_relu(
    x: NDArray[Any],
    kernel: NDArray[Any],
    bias: NDArray[Any],
    *,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    padding: Padding = "SAME",
    activation: Activation = "relu",
    variant: str | None = None,
    emulate: bool = False,
) -> NDArray[Any]:
    """activation(conv2d(x, kernel) + bias), all of one dtype.

    `x` is [batch, height, width, channels], the kernel [height, width, channels, out_channels],
    the bias [out_channels]; strides and dilations are along (height, width), and "SAME" pads as
    TensorFlow does. Otherwise as `matmul_bias_act`.
    """
    name = "conv2d_bias_relu"
    wanted = "[batch, height, width, channels], [height, width, channels, out] and [out]"
    _check(name, [x, kernel, bias], [4, 4, 1], wanted)
    batch, height, width, channels = x.shape
    if kernel.shape[2] != channels or bias.shape != kernel.shape[3:]:
        raise ValueError(
            f"{name}: the shapes are {x.shape}, {kernel.shape}, {bias.shape}; want {wanted}"
        )
    check_steps(name, strides=strides, dilations=dilations)
    check_choice(name, PADDINGS, padding=padding)
    axes = [
        conv_axis(size, extent, stride, dilation, padding)
        for size, extent, stride, dilation in zip(
            (height, width), kernel.shape[:2], strides, dilations, strict=True
        )
    ]
    (out_height, pad_top), (out_width, pad_left) = axes
    y = np.empty((batch, out_height, out_width, bias.size), x.dtype)
    sizes = [*x.shape, bias.size, *kernel.shape[:2], *strides, *dilations, pad_top, pad_left]
    sizes += [out_height, out_width, _activation_number(name, activation)]
    products = y.size * int(np.prod(kernel.shape[:3], dtype=np.int64))
    _run(_kernel(name, variant, emulate), [x, kernel, bias, y], sizes, products, variant)
    return y


def conv_axis(
    size: int, extent: int, stride: int, dilation: int, padding: Padding
) -> tuple[int, int]:
    """The result's extent along an axis and the padding before it, as TensorFlow defines them.

    ValueError when VALID padding leaves nothing.
    """
    reach = (extent - 1) * dilation + 1
    if padding == "SAME":
        out = -(-size // stride)
        return out, max((out - 1) * stride + reach - size, 0) // 2
    if extent < 1 or size < reach:
        raise ValueError(
            f"conv2d_bias_relu: the image's axis is {size} long and the kernel reaches over "
            f"{reach}: nothing is left with VALID padding; use SAME or a larger image"
        )
    return (size - reach) // stride + 1, 0


def _kernel(name: str, variant: str | None, emulate: bool) -> str:
    """The operator's name in the build: the emulated kernel has one of its own in fast builds."""
    return f"{name}_cpusim" if emulate and variant != "checked" else name
