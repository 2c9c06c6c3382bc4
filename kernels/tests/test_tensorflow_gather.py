"""AscendGatherAddRelu: the op against TensorFlow's own three, its gradient and its errors."""

from typing import Any

import numpy as np
import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import tensorflow as ascend_tf


def native(table: Any, indices: Any, addend: Any) -> Any:
    """The same by TensorFlow's ops."""
    return tf.nn.relu(tf.gather(table, indices) + addend)


@pytest.mark.parametrize("dtype", [tf.float32, tf.half, tf.bfloat16])
@pytest.mark.parametrize("index_type", [tf.int32, tf.int64])
def test_the_op_equals_gather_add_and_relu(dtype: tf.DType, index_type: tf.DType) -> None:
    generator = np.random.default_rng(1)
    table = tf.cast(generator.normal(size=(50, 3, 7)), dtype)
    indices = tf.cast(generator.integers(0, 50, (40, 9)), index_type)
    for shape in ((3, 7), (40, 9, 3, 7)):
        addend = tf.cast(generator.normal(size=shape), dtype)
        got = ascend_tf.gather_add_relu(table, indices, addend)
        assert np.array_equal(got, native(table, indices, addend))


@pytest.mark.parametrize("shape", [(4,), (6, 4)])
@pytest.mark.parametrize("static", [True, False])
def test_the_gradient_is_the_numerical_one(shape: tuple[int, ...], static: bool) -> None:
    indices = tf.constant([2, 0, -1, 2, 1, 2])
    signature = [tf.TensorSpec((3 if static else None, 4)), tf.TensorSpec(shape)]
    compute = tf.function(
        lambda table, addend: ascend_tf.gather_add_relu(table, indices, addend),
        input_signature=signature,
    )
    # Away from 0, where relu has no derivative.
    table = tf.constant(np.arange(12).reshape(3, 4) % 5 - 1.5, tf.float32)
    addend = tf.zeros(shape) + 0.25
    for part in range(2):
        theoretical, numerical = tf.test.compute_gradient(compute, [table, addend], delta=1e-2)
        np.testing.assert_allclose(theoretical[part], numerical[part], atol=1e-3)


def test_the_gradient_of_no_lookups_is_zero() -> None:
    table, addend = tf.ones((3, 4)), tf.ones(4)
    with tf.GradientTape() as tape:
        tape.watch([table, addend])
        y = ascend_tf.gather_add_relu(table, tf.zeros(0, tf.int32), addend)
    gradients = tape.gradient(y, [table, addend])
    assert [g.numpy().tolist() for g in gradients] == [[[0.0] * 4] * 3, [0.0] * 4]


def test_an_index_outside_the_table_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"index -4 at position 1 .* 3 rows"):
        ascend_tf.gather_add_relu(tf.ones((3, 2)), tf.constant([0, -4, 9]), tf.ones(2))


def test_shapes_are_checked_in_the_graph_and_when_it_runs() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"that of a row, \[2\], or of the"):
        ascend_tf.gather_add_relu(tf.ones((3, 2)), tf.constant([0]), tf.ones((1, 1)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the table is a scalar"):
        ascend_tf.gather_add_relu(tf.ones(()), tf.constant([0]), tf.ones(()))
    compute = tf.function(ascend_tf.gather_add_relu)
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal"):
        compute(tf.ones((3, 2)), tf.constant([0]), tf.ones(3))
    shape = compute.get_concrete_function(
        tf.TensorSpec((None, 2)), tf.TensorSpec((None, 5), tf.int32), tf.TensorSpec((2,))
    ).output_shapes
    assert shape.as_list() == [None, 5, 2]
