"""The TensorFlow front end: shapes, types, gradients, graphs, SavedModels, threads, errors."""

import importlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_ops.abi import DTYPES
from ascend_ops.build_record import PACKAGE_DIR, read_build_record
from ascend_ops.errors import BuildMismatchError
from ascend_ops.spec import OperatorSpec, all_specs, max_error_ulps

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import tensorflow as ascend_tf

SPECS = all_specs()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_length_is_within_tolerance(spec: OperatorSpec, dtype: np.dtype[Any]) -> None:
    for length in spec.lengths:
        arrays = spec.inputs(length, dtype, np.random.default_rng(42))
        got = getattr(ascend_tf, spec.name)(*arrays)
        assert got.dtype == dtype
        tolerance = spec.tolerances[dtype.name]
        assert max_error_ulps(got.numpy(), spec.exact(arrays), tolerance) <= tolerance.ulps, (
            f"length {length}"
        )


@pytest.mark.parametrize("rank", range(9))
def test_ranks_0_to_8_keep_their_shape(rank: int) -> None:
    shape = (2,) * rank
    x = tf.ones(shape)
    assert ascend_tf.sigmoid(x).shape == shape
    assert tf.function(ascend_tf.sigmoid)(x).shape == shape
    assert ascend_tf.sigmoid_grad(x, x).shape == shape


def test_rank_9_is_refused_by_name_eagerly_and_in_a_graph() -> None:
    x = tf.ones((1,) * 9)
    with pytest.raises(tf.errors.InvalidArgumentError, match="AscendSigmoid: the input has rank 9"):
        ascend_tf.sigmoid(x)
    with pytest.raises(
        ValueError, match=r"must be of rank 8 or less: .* has rank 9, and at most 8"
    ):
        tf.function(ascend_tf.sigmoid)(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"AscendSigmoidGrad: .* has rank 9"):
        ascend_tf.sigmoid_grad(x, x)


def test_an_unknown_rank_is_checked_when_it_runs() -> None:
    compute = tf.function(ascend_tf.sigmoid, input_signature=[tf.TensorSpec(None, tf.float32)])
    assert compute(tf.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank 9"):
        compute(tf.ones((1,) * 9))


def test_float64_and_different_shapes_are_refused() -> None:
    in_graph = tf.function(ascend_tf.sigmoid)
    for function in (ascend_tf.sigmoid, in_graph):
        with pytest.raises(TypeError, match=r"dtype float64 is not supported; cast to float32"):
            function(tf.zeros(3, tf.float64))
    for function in (ascend_tf.sigmoid_grad, tf.function(ascend_tf.sigmoid_grad)):
        with pytest.raises(TypeError, match=r"dtypes float32, float16; cast them to one"):
            function(tf.zeros(3), tf.zeros(3, tf.half))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"y has shape \[2\] and dy has shape"):
        ascend_tf.sigmoid_grad(tf.zeros(2), tf.zeros(3))


def test_indices_of_another_type_are_refused_with_what_to_do() -> None:
    table, row = tf.zeros((2, 3)), tf.zeros(3)
    for kind in (tf.float32, tf.int16):
        indices = tf.cast([0, 1], kind)
        told = rf"indices have dtype {kind.name}; cast them to int32 or int64 \(tf.cast\)"
        for wrap in (lambda function: function, tf.function):
            with pytest.raises(TypeError, match=f"gather_add_relu: {told}"):
                wrap(ascend_tf.gather_add_relu)(table, indices, row)
            with pytest.raises(TypeError, match=f"embedding_dense_grad: {told}"):
                wrap(lambda x, i: ascend_tf.embedding_dense_grad(x, i, 2))(table, indices)


def test_tensors_that_are_not_dense_are_refused_with_what_to_do() -> None:
    ragged = tf.ragged.constant([[1.0], [1.0, 2.0]])
    for function in (ascend_tf.sigmoid, tf.function(ascend_tf.sigmoid)):
        with pytest.raises(TypeError, match="sigmoid: a RaggedTensor is not supported; make it de"):
            function(ragged)
        with pytest.raises(TypeError, match="sigmoid: a SparseTensor is not supported; make it de"):
            function(tf.sparse.from_dense([[1.0]]))


def test_a_device_without_a_kernel_is_refused_with_where_to_go() -> None:
    soft = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    told = (
        r"sigmoid: it is placed on .*GPU:0, and its kernels are for CPUs\. Place it there: with tf"
    )
    try:
        with tf.device("/GPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match=told):
            ascend_tf.sigmoid([1.0])
    finally:
        tf.config.set_soft_device_placement(soft)


def test_the_name_reaches_the_graph() -> None:
    graph = tf.function(lambda x: ascend_tf.sigmoid(x, name="squash")).get_concrete_function(
        tf.TensorSpec((3,), tf.float32)
    )
    assert graph.graph.get_operation_by_name("squash").type == "AscendSigmoid"


def test_the_gradient_is_the_numerical_one() -> None:
    x = tf.constant(np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6))
    theoretical, numerical = tf.test.compute_gradient(ascend_tf.sigmoid, [x], delta=1e-2)
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-4)


def test_the_second_order_gradient_is_that_of_the_formula() -> None:
    x = tf.constant(np.linspace(-3, 3, 25, dtype=np.float32))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = ascend_tf.sigmoid(x)
        first = inner.gradient(y, x)
    second = outer.gradient(first, x)
    s = 1 / (1 + np.exp(-x.numpy().astype(np.float64)))
    np.testing.assert_allclose(second, s * (1 - s) * (1 - 2 * s), atol=1e-6)


def test_reloading_the_module_registers_no_gradient_twice() -> None:
    importlib.reload(ascend_tf)
    with tf.GradientTape() as tape:
        x = tf.Variable([0.0])
        y = ascend_tf.sigmoid(x)
    assert tape.gradient(y, x).numpy() == 0.25


class _Squash(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types
    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32)])  # type: ignore[untyped-decorator]
    def squash(self, x: Any) -> Any:
        return ascend_tf.sigmoid(x)


@pytest.mark.long
def test_a_saved_model_gives_the_same_in_a_new_process(tmp_path: Path) -> None:
    module = _Squash()
    x = np.array([[-1.0, 0.0, 2.0]], np.float32)
    tf.saved_model.save(module, str(tmp_path / "model"))
    script = (
        "import sys, json, tensorflow as tf, ascend_ops.tensorflow\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "print(json.dumps(model.squash(tf.constant([[-1.0, 0.0, 2.0]])).numpy().tolist()))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    # Another working directory: the library is found beside its package.
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == module.squash(x).numpy().tolist()


def test_a_keras_model_trains_through_it() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(256, 4)).astype(np.float32)
    target = (x.sum(axis=1, keepdims=True) > 0).astype(np.float32)
    weights, bias = tf.Variable(tf.zeros((4, 1))), tf.Variable(tf.zeros(1))
    optimizer = tf.keras.optimizers.SGD(2.0)
    losses = []
    for _ in range(50):
        with tf.GradientTape() as tape:
            y = ascend_tf.sigmoid(x @ weights + bias)
            loss = tf.reduce_mean(tf.square(y - target))
        losses.append(float(loss))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, [weights, bias]), [weights, bias], strict=True)
        )
    assert losses[-1] < 0.2 * losses[0]


def test_concurrent_calls_of_one_function_give_what_serial_calls_give() -> None:
    compute = tf.function(ascend_tf.sigmoid)
    inputs = [tf.random.stateless_normal((70001,), (i, 0)) for i in range(8)]
    serial = [compute(x).numpy() for x in inputs]

    def work(index: int) -> bool:
        results = [compute(inputs[index]).numpy() for _ in range(10)]
        return all(np.array_equal(result, serial[index]) for result in results)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("tensorflow_version", "2.6.5", "built for TensorFlow 2.6.5"),
        ("tensorflow_cxx11_abi", "0", r"built for TensorFlow .* \(CXX11 ABI 0\)"),
        ("tensorflow_version", "", "built without TensorFlow"),
    ],
)
def test_a_library_of_another_tensorflow_is_refused_before_it_is_opened(
    tmp_path: Path, key: str, value: str, told: str
) -> None:
    record = json.loads((PACKAGE_DIR / "build_record.json").read_text(encoding="utf-8"))
    (tmp_path / "build_record.json").write_text(json.dumps(record | {key: value}))
    (tmp_path / "libascend_tensorflow.so").write_text("not a library: opening it would fail")
    with pytest.raises(BuildMismatchError, match=told) as refusal:
        ascend_tf.load_op_library(tmp_path)
    assert f"found TensorFlow {tf.__version__}" in str(refusal.value)
    assert "Rebuild with: pip install" in str(refusal.value)


def test_the_package_works_where_it_is_copied_to(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE_DIR, tmp_path / "ascend_ops")
    script = "import ascend_ops.tensorflow as t; print(float(t.sigmoid(0.0)), t.__file__)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["0.5", str(tmp_path / "ascend_ops" / "tensorflow.py")]
