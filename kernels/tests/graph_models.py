"""TensorFlow graphs for the tests of the graph optimiser, exactly as written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from ascend_ops.graph_view import Model

W = np.random.default_rng(5).normal(size=(8, 6)).astype(np.float32)
B = np.arange(6, dtype=np.float32)
K = np.random.default_rng(6).normal(size=(3, 3, 4, 5)).astype(np.float32)
C = np.arange(5, dtype=np.float32)
VECTOR = tf.TensorSpec([None, 8], tf.float32, "x")
IMAGE = tf.TensorSpec([None, 9, 9, 4], tf.float32, "x")
Build = Callable[[Any], Any]


def model_of(build: Build, spec: tf.TensorSpec = VECTOR) -> Model:
    """The graph of a function exactly as it is written, without any of TensorFlow's passes."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(spec.dtype, spec.shape, name="x")
        results = build(x)
        named = results if isinstance(results, tuple) else (results,)
        outputs = {f"y{i}": tensor.name for i, tensor in enumerate(named)}
    return Model(graph.as_graph_def(), {"x": "x:0"}, outputs, specs={"x": spec})


def dense(x: Any, **transposed: bool) -> Any:
    return tf.nn.bias_add(tf.matmul(x, W, **transposed), B)


def conv(x: Any, **more: Any) -> Any:
    given = {"strides": 1, "padding": "SAME", **more}
    return tf.nn.bias_add(tf.nn.conv2d(x, K, **given), C)
