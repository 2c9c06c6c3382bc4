"""CustomFusedMatMul and CustomFusedConv: against TensorFlow's ops, gradients, shapes, errors."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ascend_ops.build_record import find_library, read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import tensorflow as ascend
from ascend_ops.plugin import Plugin

LIBRARY = str(find_library("ascend_tensorflow"))
TYPES = (tf.float32, tf.float16, tf.bfloat16)
ACTIVATIONS = {"none": tf.identity, "relu": tf.nn.relu, "sigmoid": tf.sigmoid}


def normal(shape: tuple[int, ...], seed: int, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Numbers that a seed stands for."""
    return tf.cast(tf.random.stateless_normal(shape, (seed, 3)), dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_product_equals_tensorflows_three_ops(activation: str, dtype: tf.DType) -> None:
    a, b, bias = normal((37, 50), 1, dtype), normal((50, 21), 2, dtype), normal((21,), 3, dtype)
    y = ascend.matmul_bias_act(a, b, bias, activation)
    wide = [tf.cast(x, tf.float64) for x in (a, b, bias)]
    expected = ACTIVATIONS[activation](tf.matmul(*wide[:2]) + wide[2])
    tolerance = {tf.float32: 1e-5, tf.float16: 1e-3, tf.bfloat16: 8e-3}[dtype]
    np.testing.assert_allclose(tf.cast(y, tf.float64), expected, rtol=tolerance, atol=tolerance)
    assert y.dtype == dtype


@pytest.mark.parametrize("steps", [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (2, 3))], ids=str)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_the_convolution_equals_tensorflows_three_ops(padding: str, steps: Any) -> None:
    strides, dilations = steps
    x, kernel, bias = normal((2, 13, 11, 5), 1), normal((3, 2, 5, 7), 2), normal((7,), 3)
    y = ascend.conv2d_bias_relu(x, kernel, bias, strides, dilations, padding)
    native = tf.nn.conv2d(x, kernel, strides, padding, dilations=dilations)
    np.testing.assert_allclose(y, tf.nn.relu(tf.nn.bias_add(native, bias)), atol=1e-5)


@pytest.mark.parametrize("activation", ["none", "sigmoid"])
@pytest.mark.parametrize("across_a", [False, True])
@pytest.mark.parametrize("across_b", [False, True])
def test_the_gradients_of_the_product_are_the_numerical_ones(
    activation: str, across_a: bool, across_b: bool
) -> None:
    def compute(a: Any, b: Any, bias: Any) -> Any:
        return ascend.matmul_bias_act(a, b, bias, activation, across_a, across_b)

    arguments = [
        normal((3, 4)[:: -1 if across_a else 1], 1),
        normal((4, 2)[:: -1 if across_b else 1], 2),
    ]
    arguments.append(normal((2,), 3))
    theoretical, numerical = tf.test.compute_gradient(compute, arguments, delta=1e-2)
    for one, other in zip(theoretical, numerical, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.parametrize("dilations", [(1, 1), (2, 1)], ids=str)
def test_the_gradients_of_the_convolution_are_the_numerical_ones(dilations: Any) -> None:
    def compute(x: Any, kernel: Any, bias: Any) -> Any:
        return ascend.conv2d_bias_relu(
            x, kernel, bias, (1, 2), dilations, "SAME", activation="sigmoid"
        )

    arguments = [normal((1, 5, 4, 2), 1), normal((2, 2, 2, 2), 2), normal((2,), 3)]
    theoretical, numerical = tf.test.compute_gradient(compute, arguments, delta=1e-2)
    for one, other in zip(theoretical, numerical, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


def test_the_second_derivative_of_the_product_is_the_numerical_one() -> None:
    b, bias = normal((4, 2), 2), normal((2,), 3)

    def first(a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.reduce_sum(ascend.matmul_bias_act(a, b, bias, "sigmoid") ** 2)
        return tape.gradient(y, a)

    theoretical, numerical = tf.test.compute_gradient(first, [normal((3, 4), 1)], delta=1e-2)
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=2e-3)


def test_relu_passes_a_gradient_only_where_the_result_is_positive() -> None:
    a = tf.constant([[1.0], [-1.0]])
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = ascend.matmul_bias_act(a, tf.constant([[3.0]]), tf.zeros(1), "relu")
    assert tape.gradient(y, a).numpy().tolist() == [[3.0], [0.0]]


def test_shapes_are_inferred_as_far_as_they_are_known() -> None:
    spec = tf.TensorSpec
    matmul = tf.function(ascend.matmul_bias_act).get_concrete_function(
        spec((None, 3), tf.float32), spec((3, 5), tf.float32), spec((5,), tf.float32)
    )
    assert matmul.output_shapes.as_list() == [None, 5]
    conv = tf.function(
        lambda x, k, b: ascend.conv2d_bias_relu(x, k, b, (2, 2))
    ).get_concrete_function(
        spec((None, 9, None, 3), tf.float32), spec((3, 3, 3, 5), tf.float32), spec((5,), tf.float32)
    )
    assert conv.output_shapes.as_list() == [None, 5, None, 5]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"a has shape \[2,3\], b \[2,3\]"):
        ascend.matmul_bias_act(tf.ones((2, 3)), tf.ones((2, 3)), tf.ones(3))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"must be \[m, k\], \[k, n\] and \[n\]"
    ):
        ascend.matmul_bias_act(tf.ones((2, 3, 1)), tf.ones((3, 2)), tf.ones(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="reaches over 5: nothing is left"):
        ascend.conv2d_bias_relu(
            tf.ones((1, 4, 4, 1)), tf.ones((3, 3, 1, 1)), tf.ones(1), (1, 1), (2, 2), "VALID"
        )
    for steps in ((0, 1), (1, 1, 1), 2, (1.5, 1)):
        with pytest.raises(ValueError, match=r"strides is .*; it must be two whole numbers of at"):
            ascend.conv2d_bias_relu(
                tf.ones((1, 4, 4, 1)), tf.ones((3, 3, 1, 1)), tf.ones(1), cast(Any, steps)
            )
    conv = Plugin().functions["CustomFusedConv"]
    for bad in ([1, 0, 1, 1], [2, 1, 1, 1], [1, 1]):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="strides must be"):
            conv(
                tf.ones((1, 4, 4, 1)),
                tf.ones((3, 3, 1, 1)),
                tf.ones(1),
                strides=bad,
                padding="SAME",
            )
    with pytest.raises(ValueError, match="activation is 'tanh'; it must be one of none, relu, sig"):
        ascend.matmul_bias_act(tf.ones((1, 1)), tf.ones((1, 1)), tf.ones(1), "tanh")
    with pytest.raises(ValueError, match="padding is 'FULL'; it must be one of SAME, VALID"):
        ascend.conv2d_bias_relu(
            tf.ones((1, 4, 4, 1)), tf.ones((3, 3, 1, 1)), tf.ones(1), padding="FULL"
        )


def test_what_does_not_fit_in_a_graph_is_told_with_the_shapes_that_do() -> None:
    image, kernel, bias = tf.ones((1, 4, 4, 2)), tf.ones((3, 3, 3, 2)), tf.ones(2)
    told = (
        r"conv2d_bias_relu: the shapes are \(1, 4, 4, 2\), \(3, 3, 3, 2\), \(2,\); they must be \[b"
    )
    with pytest.raises(ValueError, match=told):
        tf.function(ascend.conv2d_bias_relu)(image, kernel, bias)
    told = r"matmul_bias_act: the shapes are \(2, 2\), \(2, 2\), \(1, 2\); they must be \[m, k\]"
    with pytest.raises(ValueError, match=told):
        tf.function(ascend.matmul_bias_act)(tf.ones((2, 2)), tf.ones((2, 2)), tf.ones((1, 2)))


def test_empty_tensors_give_empty_results_or_the_bias() -> None:
    assert ascend.matmul_bias_act(tf.ones((0, 3)), tf.ones((3, 2)), tf.ones(2)).shape == (0, 2)
    only_bias = ascend.matmul_bias_act(
        tf.ones((2, 0)), tf.ones((0, 2)), tf.constant([1.0, -1.0]), "relu"
    )
    assert only_bias.numpy().tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert ascend.conv2d_bias_relu(
        tf.ones((0, 4, 4, 2)), tf.ones((3, 3, 2, 5)), tf.ones(5)
    ).shape == (
        0,
        4,
        4,
        5,
    )


def test_a_saved_model_with_both_ops_gives_the_same(tmp_path: Path) -> None:
    module = tf.Module()
    module.kernel = tf.Variable(normal((3, 3, 2, 4), 1))
    module.weight = tf.Variable(normal((64, 3), 2))

    def serve(x: Any) -> Any:
        hidden = ascend.conv2d_bias_relu(x, module.kernel, tf.zeros(4))
        return ascend.matmul_bias_act(
            tf.reshape(hidden, (-1, 64)), module.weight, tf.zeros(3), "sigmoid"
        )

    module.serve = tf.function(serve, input_signature=[tf.TensorSpec((None, 4, 4, 2), tf.float32)])
    x = normal((5, 4, 4, 2), 3)
    tf.saved_model.save(module, str(tmp_path))
    assert np.array_equal(tf.saved_model.load(str(tmp_path)).serve(x), module.serve(x))


def test_concurrent_calls_of_one_node_give_what_serial_calls_give() -> None:
    compute = tf.function(lambda a, b: ascend.matmul_bias_act(a, b, tf.zeros(b.shape[1]), "relu"))
    inputs = [(normal((90, 400), seed), normal((400, 70), seed + 50)) for seed in range(6)]
    serial = [compute(*pair).numpy() for pair in inputs]

    def work(index: int) -> bool:
        return all(np.array_equal(compute(*inputs[index]), serial[index]) for _ in range(10))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


@pytest.mark.parametrize("across_b", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_a_constant_matrix_that_is_packed_once_gives_the_same_in_every_call(
    dtype: tf.DType, across_b: bool
) -> None:
    b, bias = normal((70, 300) if across_b else (300, 70), 1, dtype), normal((70,), 2, dtype)
    keeping, plain = (
        tf.function(
            lambda a, keep=keep: tf.load_op_library(LIBRARY).custom_fused_mat_mul(
                a, b, bias, transpose_b=across_b, constant_b=keep
            ),
            input_signature=[tf.TensorSpec((None, 300), dtype)],
        )
        for keep in (True, False)
    )
    inputs = [normal((rows, 300), rows, dtype) for rows in (0, 1, 5, 90, 700)]
    expected = [plain(x).numpy() for x in inputs]

    def work(start: int) -> bool:
        order = [(start + i) % len(inputs) for i in range(3 * len(inputs))]
        return all(np.array_equal(keeping(inputs[i]), expected[i]) for i in order)

    with ThreadPoolExecutor(6) as pool:  # the first calls at once: each may pack a part
        assert all(pool.map(work, range(6)))


def test_a_matrix_that_is_called_constant_and_changes_its_shape_is_told() -> None:
    compute = tf.function(
        lambda a, b: tf.load_op_library(LIBRARY).custom_fused_mat_mul(
            a, b, tf.zeros(tf.shape(b)[1]), constant_b=True
        ),
        input_signature=[tf.TensorSpec((None, None), tf.float32)] * 2,
    )
    compute(tf.ones((2, 3)), tf.ones((3, 40)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="said to be constant has another"):
        compute(tf.ones((2, 300)), tf.ones((300, 400)))
