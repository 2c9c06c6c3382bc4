"""The ops have no XLA kernel: a function that is to be compiled says which op is in its way.

Everything around such a function may be compiled; inside it the op's own definition, which XLA
knows, computes the same.
"""

import ascend_ops.tensorflow as ascend
import numpy as np
import pytest
import tensorflow as tf

X = np.linspace(-5, 5, 101, dtype=np.float32)


@tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
def compiled(x: tf.Tensor) -> tf.Tensor:
    """The op in a function that XLA must compile."""
    return ascend.sigmoid(x)


def test_a_compiled_function_names_the_op_that_xla_lacks() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="AscendSigmoid"):
        compiled(tf.constant(X))


def test_automatic_clustering_leaves_the_op_to_its_own_kernel() -> None:
    function = tf.function(lambda x: ascend.sigmoid(x * 2.0) + 1.0)
    before = tf.config.optimizer.get_jit()
    tf.config.optimizer.set_jit("autoclustering")
    try:
        got = function(tf.constant(X))
    finally:
        tf.config.optimizer.set_jit(before or False)
    expected = 1 / (1 + np.exp(-2 * X.astype(np.float64))) + 1
    assert np.abs(got.numpy() - expected).max() <= 2e-7 * 2
