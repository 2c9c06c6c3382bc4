"""Derivatives of CustomFusedMatMul and CustomFusedConv, made of TensorFlow's own ops."""

from typing import Any

import tensorflow as tf


def before_activation(op: Any, grad: Any) -> Any:
    """The derivative for what the activation was applied to."""
    activation = op.get_attr("activation").decode()
    y = op.outputs[0]
    if activation == "relu":
        return tf.raw_ops.ReluGrad(gradients=grad, features=y)
    return y * (1 - y) * grad if activation == "sigmoid" else grad


def matmul_gradient(op: Any, grad: Any) -> tuple[Any, Any, Any]:
    """For both matrices, as they lie, and for the bias."""
    a, b = op.inputs[:2]
    passed = before_activation(op, grad)
    across_a, across_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    for_a = tf.matmul(passed, b, transpose_b=not across_b)
    if across_a:
        for_a = tf.matmul(b, passed, transpose_a=across_b, transpose_b=True)
    for_b = tf.matmul(a, passed, transpose_a=not across_a)
    if across_b:
        for_b = tf.matmul(passed, a, transpose_a=True, transpose_b=across_a)
    return for_a, for_b, tf.reduce_sum(passed, 0)


def conv_gradient(op: Any, grad: Any) -> tuple[Any, Any, Any]:
    """For the image, the kernel and the bias.

    TensorFlow differentiates no dilated convolution on every CPU, so that a dilated kernel is
    written out with its zeros, which is the same convolution.
    """
    x, kernel = op.inputs[:2]
    passed = before_activation(op, grad)
    _, down, across, _ = op.get_attr("dilations")
    settings = {"strides": op.get_attr("strides"), "padding": op.get_attr("padding").decode()}
    wide = _write_zeros(kernel, down, across)
    for_x = tf.raw_ops.Conv2DBackpropInput(
        input_sizes=tf.shape(x), filter=wide, out_backprop=passed, **settings
    )
    for_wide = tf.raw_ops.Conv2DBackpropFilter(
        input=x, filter_sizes=tf.shape(wide), out_backprop=passed, **settings
    )
    return for_x, for_wide[::down, ::across], tf.reduce_sum(passed, [0, 1, 2])


def _write_zeros(kernel: Any, down: int, across: int) -> Any:
    """The kernel with `down − 1` rows and `across − 1` columns of zeros between its own."""
    if (down, across) == (1, 1):
        return kernel
    shape = tf.shape(kernel)
    rows, columns = shape[0], shape[1]
    spread = tf.reshape(kernel, [rows, 1, columns, 1, shape[2], shape[3]])
    spread = tf.pad(spread, [[0, 0], [0, down - 1], [0, 0], [0, across - 1], [0, 0], [0, 0]])
    spread = tf.reshape(spread, [rows * down, columns * across, shape[2], shape[3]])
    return spread[: (rows - 1) * down + 1, : (columns - 1) * across + 1]
