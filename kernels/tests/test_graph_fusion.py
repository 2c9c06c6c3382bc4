"""What the TensorFlow graph optimiser fuses, what it must leave alone, and equal answers."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ascend_ops.graph_compare import make_inputs, relative_error
from ascend_ops.graph_fusion import CONV, MATMUL, fuse
from ascend_ops.graph_optimize import missing_ops, optimise
from ascend_ops.graph_view import make_callable

from kernels.tests.graph_models import IMAGE, VECTOR, B, Build, C, K, W, conv, dense, model_of

needs_ops = pytest.mark.skipif(bool(missing_ops()), reason=missing_ops() or "they are there")


def fused_in(build: Build, spec: tf.TensorSpec = VECTOR) -> list[tuple[str, str]]:
    """Op and activation of each chain that is fused."""
    return [(one.op, one.activation) for one in fuse(model_of(build, spec))]


FUSED: dict[str, tuple[Build, tf.TensorSpec, list[tuple[str, str]]]] = {
    "dense": (dense, VECTOR, [(MATMUL, "none")]),
    "dense relu": (lambda x: tf.nn.relu(dense(x)), VECTOR, [(MATMUL, "relu")]),
    "dense sigmoid": (lambda x: tf.sigmoid(dense(x)), VECTOR, [(MATMUL, "sigmoid")]),
    "added vector": (lambda x: tf.nn.relu(tf.matmul(x, W) + B), VECTOR, [(MATMUL, "relu")]),
    "vector first": (lambda x: tf.nn.relu(B + tf.matmul(x, W)), VECTOR, [(MATMUL, "relu")]),
    "transposed": (
        lambda x: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, W.T, transpose_b=True), B)),
        VECTOR,
        [(MATMUL, "relu")],
    ),
    "two layers": (
        lambda x: tf.matmul(tf.nn.relu(dense(x)), W.T) + np.ones(8, np.float32),
        VECTOR,
        [(MATMUL, "relu"), (MATMUL, "none")],
    ),
    "shared weights": (
        lambda x: (tf.nn.relu(dense(x)), tf.sigmoid(dense(2 * x))),
        VECTOR,
        [(MATMUL, "relu"), (MATMUL, "sigmoid")],
    ),
    "conv": (lambda x: tf.nn.relu(conv(x)), IMAGE, [(CONV, "relu")]),
    "conv with strides": (
        lambda x: tf.nn.relu(conv(x, strides=2, padding="VALID")),
        IMAGE,
        [(CONV, "relu")],
    ),
    "conv with dilation": (
        lambda x: tf.nn.relu(conv(x, dilations=2, padding="VALID")),
        IMAGE,
        [(CONV, "relu")],
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_chains_are_fused(name: str) -> None:
    build, spec, expected = FUSED[name]
    assert fused_in(build, spec) == expected


@needs_ops
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_graph_gives_the_same_answers(name: str) -> None:
    build, spec, expected = FUSED[name]
    model = model_of(build, spec)
    done = optimise(model)
    assert [(one.op, one.activation) for one in done.fused] == expected
    x = make_inputs(model, 3)
    pairs = zip(make_callable(model)(*x), make_callable(done.model)(*x), strict=True)
    for one, other in pairs:
        assert relative_error(one.numpy(), other.numpy()) <= 2e-6


def two_users(x: Any) -> Any:
    middle = tf.matmul(x, W)
    return tf.nn.relu(tf.nn.bias_add(middle, B)) + middle


def fetched(x: Any) -> Any:
    middle = tf.matmul(x, W)
    return tf.nn.relu(tf.nn.bias_add(middle, B)), middle


def used_twice(x: Any) -> Any:
    middle = tf.matmul(x, W[:, :1])
    return tf.add(middle, middle)


def waits(x: Any) -> Any:
    with tf.control_dependencies([tf.print(x)]):
        product = tf.matmul(x, W)
    return tf.nn.relu(tf.nn.bias_add(product, B))


def bias_waits(x: Any) -> Any:
    product = tf.matmul(x, W)
    with tf.control_dependencies([tf.print(x)]):
        return tf.nn.relu(tf.nn.bias_add(product, B))


def is_waited_for(x: Any) -> Any:
    product = tf.matmul(x, W)
    result = tf.nn.relu(tf.nn.bias_add(product, B))
    with tf.control_dependencies([product]):
        return result, tf.identity(x)


inner = tf.function(lambda x: tf.nn.relu(dense(x)))


TRAPS: dict[str, tuple[Build, tf.TensorSpec]] = {
    "a middle with two users": (two_users, VECTOR),
    "a middle that is fetched": (fetched, VECTOR),
    "a middle added to itself": (used_twice, VECTOR),
    "the product waits": (waits, VECTOR),
    "the bias waits": (bias_waits, VECTOR),
    "the product is waited for": (is_waited_for, VECTOR),
    "a function's body": (inner, VECTOR),
    "relu6 after dense": (lambda x: tf.nn.relu6(dense(x)), VECTOR),
    "elu after dense": (lambda x: tf.nn.elu(dense(x)), VECTOR),
    "relu6 after conv": (lambda x: tf.nn.relu6(conv(x)), IMAGE),
    "conv without relu": (conv, IMAGE),
    "a bias of one": (lambda x: tf.nn.relu(tf.matmul(x, W) + B[:1]), VECTOR),
    "a bias of two axes": (lambda x: tf.nn.relu(tf.matmul(x, W) + B[None]), VECTOR),
    "a column": (
        lambda x: tf.nn.relu(tf.matmul(x, W) + np.ones((4, 1), np.float32)),
        tf.TensorSpec([4, 8], tf.float32, "x"),
    ),
    "a scalar": (lambda x: tf.nn.relu(tf.matmul(x, W) + 1.0), VECTOR),
    "a bias of unknown size": (
        lambda x: tf.nn.relu(
            tf.matmul(x, W) + tf.compat.v1.placeholder_with_default(B, shape=[None])
        ),
        VECTOR,
    ),
    "a bias of unknown rank": (
        lambda x: tf.nn.relu(
            tf.raw_ops.BiasAdd(
                value=tf.matmul(x, W), bias=tf.compat.v1.placeholder_with_default(B, shape=None)
            )
        ),
        VECTOR,
    ),
    "doubles": (
        lambda x: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, W.astype(np.float64)), B.astype(float))),
        tf.TensorSpec([None, 8], tf.float64, "x"),
    ),
    "NCHW": (
        lambda x: tf.nn.relu(
            tf.nn.bias_add(tf.nn.conv2d(x, K, 1, "SAME", data_format="NCHW"), C, data_format="NCHW")
        ),
        tf.TensorSpec([None, 4, 9, 9], tf.float32, "x"),
    ),
    "a bias of NCHW": (
        lambda x: tf.nn.relu(
            tf.nn.bias_add(
                tf.nn.conv2d(x, K, 1, "SAME"), np.ones(9, np.float32), data_format="NCHW"
            )
        ),
        IMAGE,
    ),
    "explicit padding": (
        lambda x: tf.nn.relu(conv(x, padding=[[0, 0], [1, 2], [0, 1], [0, 0]])),
        IMAGE,
    ),
    "a grouped convolution": (
        lambda x: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, K[:, :, :2, :4], 1, "SAME"), C[:4])),
        IMAGE,
    ),
    "unknown channels": (
        lambda x: tf.nn.relu(conv(x)),
        tf.TensorSpec([None, None, None, None], tf.float32, "x"),
    ),
    "two devices": (
        lambda x: tf.nn.relu(tf.nn.bias_add(_elsewhere(x), B)),
        VECTOR,
    ),
    "a batched product": (
        lambda x: tf.nn.relu(tf.matmul(x, W[None]) + B),
        tf.TensorSpec([None, 2, 8], tf.float32, "x"),
    ),
}


def _elsewhere(x: Any) -> Any:
    with tf.device("/CPU:1"):
        return tf.matmul(x, W)


@pytest.mark.parametrize("name", TRAPS)
def test_nothing_is_fused_in_a_trap(name: str) -> None:
    build, spec = TRAPS[name]
    assert fused_in(build, spec) == []


def test_only_a_matrix_of_the_graph_is_called_constant() -> None:
    def build(x: Any) -> Any:
        other = tf.compat.v1.placeholder_with_default(W.T, shape=W.T.shape)
        return tf.nn.bias_add(tf.matmul(tf.nn.relu(dense(x)), other), np.ones(8, np.float32))

    model = model_of(build)
    fuse(model)
    fused = [node for node in model.graph.node if node.op == MATMUL]
    assert [node.attr["constant_b"].b for node in fused] == [True, False]


# A size for an axis that a trap leaves open, by rank.
OPEN = {2: (3, 8), 3: (3, 2, 8), 4: (3, 9, 9, 4)}


@pytest.mark.parametrize("name", TRAPS)
def test_all_passes_leave_a_traps_answers_as_they_are(name: str) -> None:
    build, spec = TRAPS[name]
    model = model_of(build, spec)
    done = optimise(model)
    assert done.fused == ()
    sizes = [size or free for size, free in zip(spec.shape, OPEN[spec.shape.rank], strict=True)]
    x = tf.cast(tf.random.stateless_normal(sizes, (7, 1)), spec.dtype)
    try:
        expected = make_callable(model)(x)
    except tf.errors.OpError:
        pytest.skip("TensorFlow itself does not run this graph on this processor")
    for one, other in zip(expected, make_callable(done.model)(x), strict=True):
        assert relative_error(one.numpy(), other.numpy()) <= 2e-6


def test_a_bias_with_two_users_ends_the_chain() -> None:
    def build(x: Any) -> Any:
        biased = dense(x)
        return tf.nn.relu(biased) + biased

    assert fused_in(build) == [(MATMUL, "none")]
