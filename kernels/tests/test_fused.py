"""Matrix product and convolution on NumPy arrays: each build against float64, shapes, errors."""

import os
from typing import Any, cast

import ascend_ops
import numpy as np
import pytest
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.fused_ops import Activation
from ascend_ops.spec import load_spec, ulp_size
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

MATMUL, CONV = load_spec("matmul_bias_act"), load_spec("conv2d_bias_relu")
# Values of binary fractions, so that each float sum is exact, whatever its order.
EXACT = 2.0**-3


def bound(exact: NDArray[Any], sizes: NDArray[Any], terms: int, dtype: np.dtype[Any]) -> Any:
    """What a float sum of so many terms, the sizes of which add up to `sizes`, may err.

    N. Higham, Accuracy and Stability of Numerical Algorithms (2002), 3.1; then one rounding to the
    type. Relu and sigmoid only shrink it; the sigmoid's own error is 2 units of float.
    """
    rounding = ulp_size(exact, dtype) / 2 if dtype != np.float32 else 0.0
    return terms * 2.0**-24 * sizes * 1.01 + rounding + 2 * ulp_size(exact, np.dtype(np.float32))


def draw(shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator) -> Any:
    """Normal numbers of the type."""
    return generator.normal(size=shape).astype(dtype)


def check_matmul(
    m: int, n: int, k: int, dtype: np.dtype[Any], flags: tuple[bool, bool, str], **how: Any
) -> None:
    """One product against float64, each element within its own bound."""
    generator = np.random.default_rng(m * 10007 + n * 101 + k)
    across_a, across_b, activation = flags[0], flags[1], cast("Activation", flags[2])
    a, b = draw((m, k), dtype, generator), draw((k, n), dtype, generator)
    bias = draw((n,), dtype, generator)
    got = ascend_ops.matmul_bias_act(
        np.ascontiguousarray(a.T) if across_a else a,
        np.ascontiguousarray(b.T) if across_b else b,
        bias,
        activation=activation,
        transpose_a=across_a,
        transpose_b=across_b,
        **how,
    )
    wide = [x.astype(np.float64) for x in (a, b, bias)]
    exact = MATMUL.reference(*wide, activation=activation)
    sizes = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(wide[2])
    assert got.dtype == dtype
    assert got.shape == (m, n)
    assert np.all(np.abs(got.astype(np.float64) - exact) <= bound(exact, sizes, k + 1, dtype))


SHAPES = [(1, 1, 1), (1, 20, 300), (2, 3, 5), (17, 33, 65), (129, 130, 257), (0, 5, 3), (5, 0, 3)]
FLAGS = [
    (False, False, "none"),
    (True, False, "relu"),
    (False, True, "sigmoid"),
    (True, True, "relu"),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_a_product_is_within_the_bound_of_float_sums(
    dtype: np.dtype[Any], flags: tuple[bool, bool, str], variant: str
) -> None:
    for m, n, k in SHAPES:
        check_matmul(m, n, k, dtype, flags, variant=variant)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_emulated_kernel_of_a_fast_build_is_within_the_same_bound(dtype: Any) -> None:
    for flags in FLAGS:
        check_matmul(130, 70, 150, dtype, flags, emulate=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_columns_that_tasks_share_out_are_within_the_same_bound(dtype: Any) -> None:
    # At 128 columns a CPU and more, each task packs panels of its own.
    n = 128 * len(os.sched_getaffinity(0)) + 37
    for flags in FLAGS:
        check_matmul(150, n, 300, dtype, flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_that_wait_for_more_depth_are_within_the_same_bound(dtype: Any) -> None:
    # Above 512 the depth is summed in parts; sums for half and bfloat16 wait for 1024 rows at once.
    for flags in FLAGS:
        check_matmul(1100, 40, 1100, dtype, flags)
    check_matmul(60, 300, 1024, dtype, FLAGS[0])  # rows that are copied, as they crowd a cache


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(0, 300),
    n=st.integers(0, 300),
    k=st.integers(0, 600),
    dtype=st.sampled_from(DTYPES),
    flags=st.tuples(st.booleans(), st.booleans(), st.sampled_from(["none", "relu", "sigmoid"])),
)
def test_any_product_is_within_the_bound(
    m: int, n: int, k: int, dtype: np.dtype[Any], flags: tuple[bool, bool, str]
) -> None:
    check_matmul(m, n, k, dtype, flags)


def test_without_depth_only_the_bias_is_left(variant: str) -> None:
    for dtype in DTYPES:
        bias = np.array([-1, 0, 2], dtype)
        a, b = np.empty((2, 0), dtype), np.empty((0, 3), dtype)
        y = ascend_ops.matmul_bias_act(a, b, bias, activation="relu", variant=variant)
        assert y.astype(float).tolist() == [[0, 0, 2], [0, 0, 2]]


def test_infinities_nan_and_subnormals_spread_as_ieee_says(variant: str) -> None:
    a = np.array([[np.inf, 1], [np.nan, 1], [1e-40, 0], [-np.inf, 1]], np.float32)
    b, bias = np.array([[1], [1]], np.float32), np.zeros(1, np.float32)
    y = ascend_ops.matmul_bias_act(a, b, bias, activation="relu", variant=variant)
    assert y[0, 0] == np.inf
    assert np.isnan(y[1, 0])
    assert y[2, 0] == np.float32(1e-40)
    assert y[3, 0] == 0


def test_views_give_the_same_as_copies(variant: str) -> None:
    base = np.arange(4000, dtype=np.float32).reshape(40, 100) % 7 * EXACT
    bias = np.zeros(40, np.float32)
    for view in (base[:, 1:51], base[::2], base.T[3:43], base[::-1]):
        right = np.ones((view.shape[1], 40), np.float32)
        got = ascend_ops.matmul_bias_act(view, right, bias, variant=variant)
        copy = ascend_ops.matmul_bias_act(view.copy(), right, bias, variant=variant)
        assert np.array_equal(got, copy)
        assert np.array_equal(got[:, 0], view.sum(axis=1))


def test_the_same_product_has_the_same_bits_each_time() -> None:
    generator = np.random.default_rng(5)
    a, b, bias = [draw(s, DTYPES[0], generator) for s in ((700, 300), (300, 500), (500,))]
    first = ascend_ops.matmul_bias_act(a, b, bias)
    assert all(np.array_equal(ascend_ops.matmul_bias_act(a, b, bias), first) for _ in range(20))


def check_conv(x: Any, weights: Any, bias: Any, how: dict[str, Any], **more: Any) -> None:
    """One convolution against float64, each element within its own bound."""
    got = ascend_ops.conv2d_bias_relu(x, weights, bias, **how, **more)
    wide = [array.astype(np.float64) for array in (x, weights, bias)]
    exact = CONV.reference(*wide, **how)
    sizes = CONV.reference(*[np.abs(array) for array in wide], **{**how, "activation": "none"})
    terms = int(np.prod(weights.shape[:3])) + 1
    assert got.shape == exact.shape
    assert np.all(np.abs(got.astype(np.float64) - exact) <= bound(exact, sizes, terms, x.dtype))


@settings(max_examples=60, deadline=None)
@given(
    image=st.tuples(*[st.integers(1, high) for high in (3, 12, 20, 40)]),
    kernel=st.tuples(*[st.integers(1, high) for high in (4, 4, 40)]),
    steps=st.tuples(*[st.integers(1, 3) for _ in range(4)]),
    padding=st.sampled_from(["SAME", "VALID"]),
    activation=st.sampled_from(["none", "relu", "sigmoid"]),
    dtype=st.sampled_from(DTYPES),
    variant=st.sampled_from([None, "checked"]),
)
def test_any_convolution_is_within_the_bound_of_float_sums(
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    steps: tuple[int, ...],
    padding: Any,
    activation: Any,
    dtype: np.dtype[Any],
    variant: str | None,
) -> None:
    generator = np.random.default_rng(1)
    x = draw(image, dtype, generator)
    weights = draw((*kernel[:2], image[3], kernel[2]), dtype, generator)
    bias = draw((kernel[2],), dtype, generator)
    how = {"strides": steps[:2], "dilations": steps[2:], "padding": padding}
    reach = [(kernel[i] - 1) * steps[2 + i] + 1 for i in range(2)]
    if padding == "VALID" and (reach[0] > image[1] or reach[1] > image[2]):
        with pytest.raises(ValueError, match="nothing is left with VALID padding"):
            ascend_ops.conv2d_bias_relu(x, weights, bias, **how)
        return
    check_conv(x, weights, bias, {**how, "activation": activation}, variant=variant)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("image", "kernel", "steps"),
    [
        ((5, 9, 14, 300), (3, 3, 40), (1, 1)),  # more depth than is summed at once
        ((2, 6, 15, 1024), (2, 1, 33), (1, 1)),  # pixels that would crowd a cache
        ((2, 64, 70, 30), (3, 3, 16), (1, 1)),  # several tasks, of several images' lines
        ((2, 30, 31, 9), (3, 3, 70), (2, 2)),
        ((2, 16, 17, 40), (1, 1, 70), (1, 1)),  # a matrix
        ((3, 16, 17, 40), (1, 1, 70), (2, 2)),  # pixels that no window shares
    ],
    ids=str,
)
def test_each_way_of_reading_an_image_is_within_the_bound(
    dtype: Any, image: Any, kernel: Any, steps: Any
) -> None:
    generator = np.random.default_rng(2)
    x, bias = draw(image, dtype, generator), draw(kernel[2:], dtype, generator)
    weights = draw((*kernel[:2], image[3], kernel[2]), dtype, generator)
    for activation in ("relu", "sigmoid"):
        check_conv(x, weights, bias, {"strides": steps, "activation": activation})


def test_wrong_arguments_are_refused_with_what_is_wrong() -> None:
    one = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match=r"dtype float64 is not supported; cast to float32"):
        ascend_ops.matmul_bias_act(np.ones((2, 3)), one, np.ones(3, np.float32))
    with pytest.raises(ValueError, match=r"the shapes are \(2, 3\), \(2, 3\), \(3,\)"):
        ascend_ops.matmul_bias_act(one, one, np.ones(3, np.float32))
    with pytest.raises(ValueError, match="all of one dtype"):
        ascend_ops.matmul_bias_act(one, one.T, np.ones(2, np.float16))
    with pytest.raises(
        ValueError, match="activation is 'tanh'; it must be one of none, relu, sigmoid"
    ):
        ascend_ops.matmul_bias_act(one, one.T, np.ones(2, np.float32), activation="tanh")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"strides is \(0, 1\); it must be two whole"):
        ascend_ops.conv2d_bias_relu(
            np.ones((1, 4, 4, 1), np.float32),
            np.ones((1, 1, 1, 1), np.float32),
            np.ones(1, np.float32),
            strides=(0, 1),
        )


def test_cube_cycles_grow_with_the_product_and_their_pipe_is_busy() -> None:
    operator = load_library("checked").operators["matmul_bias_act"]
    estimates = []
    for size in (128, 256):
        arrays = [np.ones((size, size), np.float16) for _ in range(2)]
        y = np.empty((size, size), np.float16)
        arguments = [*arrays, np.ones(size, np.float16), y]
        estimates.append(operator.estimate(arguments, DTYPES[1], [size, size, size, 0, 0, 0]))
    # 16 × 16 × 16 products a cycle, and 20 cycles to start each of the instructions.
    starts = estimates[0].busy["cube"] - (128 / 16) ** 3
    assert starts > 0
    assert starts % 20 == 0
    assert estimates[1].busy["cube"] > 8 * (128 / 16) ** 3
    assert estimates[0].busy["copy_result"] > 0
    assert estimates[0].busy["vector"] == 0
