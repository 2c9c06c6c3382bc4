"""The TensorFlow graph optimiser: graphs made smaller, models read and written, graphs compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from ascend_ops.errors import InvalidInputError
from ascend_ops.graph_compare import compare, make_inputs, relative_error
from ascend_ops.graph_fusion import fuse
from ascend_ops.graph_load import load_model, save_model
from ascend_ops.graph_optimize import missing_ops, optimise
from ascend_ops.graph_view import make_callable

from kernels.tests.graph_models import C, K, dense, model_of

needs_ops = pytest.mark.skipif(bool(missing_ops()), reason=missing_ops() or "they are there")


def test_constants_are_folded_and_identities_and_dead_nodes_go() -> None:
    def build(x: Any) -> Any:
        tf.sin(x, name="dead")
        scale = tf.exp(tf.constant([1.0, 2.0])) + 1.0
        return tf.identity(tf.identity(tf.stop_gradient(x)) * tf.reduce_sum(scale), name="y")

    model = model_of(build)
    done = optimise(model, custom_ops=False)
    assert done.identities == 2
    ops = sorted(node.op for node in done.model.graph.node)
    assert ops == ["Const", "Identity", "Mul", "Placeholder"]
    (value,) = [node for node in done.model.graph.node if node.op == "Const"]
    assert tf.make_ndarray(value.attr["value"].tensor) == pytest.approx(np.exp(1) + np.exp(2) + 2)
    assert len(model.graph.node) == done.nodes_before  # the original stays as it was


def test_what_has_state_or_order_is_not_folded() -> None:
    def build(x: Any) -> Any:
        with tf.control_dependencies([tf.print(x)]):
            ordered = tf.constant(2.0) * tf.constant(3.0)
        return x + tf.random.uniform([8]) + ordered

    done = optimise(model_of(build), custom_ops=False)
    ops = [node.op for node in done.model.graph.node]
    assert {"RandomUniform", "PrintV2", "Mul"} <= set(ops)


def test_a_large_constant_is_computed_when_it_is_needed() -> None:
    done = optimise(model_of(lambda x: x + tf.reduce_sum(tf.zeros([3000, 3000]) + x[0, 0])))
    assert max(len(node.SerializeToString()) for node in done.model.graph.node) < 1 << 20


def test_what_fails_when_it_is_computed_stays_in_the_graph() -> None:
    def build(x: Any) -> Any:
        return x + tf.cast(tf.constant(1) // tf.constant(0), tf.float32)

    done = optimise(model_of(build), custom_ops=False)
    assert "FloorDiv" in {node.op for node in done.model.graph.node}


def test_nchw_is_turned_on_demand_and_keeps_two_transpositions() -> None:
    def build(x: Any) -> Any:
        for _ in range(2):
            x = tf.nn.conv2d(x, K[:, :, :, :4], 1, "SAME", data_format="NCHW")
            x = tf.nn.relu(tf.nn.bias_add(x, C[:4], data_format="NCHW"))
        return tf.nn.max_pool2d(x, 3, 2, "VALID", data_format="NCHW")

    nchw = model_of(build, tf.TensorSpec([2, 4, 9, 9], tf.float32, "x"))
    done = optimise(nchw, custom_ops=False, nhwc=True)
    ops = [node.op for node in done.model.graph.node]
    assert done.turned == 5
    assert ops.count("Transpose") == 2
    layouts = {n.attr["data_format"].s for n in done.model.graph.node if "data_format" in n.attr}
    assert layouts == {b"NHWC"}
    x = np.random.default_rng(3).normal(size=(2, 4, 9, 9)).astype(np.float32)
    expected = tf.transpose(x, (0, 2, 3, 1))
    for _ in range(2):
        expected = tf.nn.relu(tf.nn.conv2d(expected, K[:, :, :, :4], 1, "SAME") + C[:4])
    expected = tf.transpose(tf.nn.max_pool2d(expected, 3, 2, "VALID"), (0, 3, 1, 2))
    (got,) = make_callable(done.model)(tf.constant(x))
    assert relative_error(expected.numpy(), got.numpy()) <= 2e-6
    assert len(fuse(done.model)) == 2


def small_model(folder: Path) -> Path:
    """A Keras model as it is exported: Dense with Relu, Dense with Sigmoid."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((8,), name="x"), keras.layers.Dense(16, activation="relu"),
              keras.layers.Dense(3, activation="sigmoid")]  # fmt: skip
    keras.Sequential(layers).export(str(folder / "model"), verbose=False)
    return folder / "model"


@pytest.mark.parametrize("suffix", ["", ".pb"])
def test_a_model_is_written_and_loads_in_any_tensorflow(tmp_path: Path, suffix: str) -> None:
    path = small_model(tmp_path)
    model = load_model(path)
    done = optimise(model, custom_ops=False)
    assert {node.op for node in done.model.graph.node} <= {
        "Placeholder", "Const", "MatMul", "BiasAdd", "Relu", "Sigmoid", "Identity"
    }  # fmt: skip
    target = tmp_path / f"new{suffix}"
    save_model(done.model, target)
    x = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    (name,) = model.inputs
    expected = tf.saved_model.load(str(path)).signatures["serving_default"](**{name: x})
    if suffix:
        again = load_model(target, outputs=list(done.model.outputs.values()))
        (got,) = make_callable(again)(tf.constant(x))
    else:
        function = tf.saved_model.load(str(target)).signatures["serving_default"]
        assert [*function.structured_input_signature[1]] == [name]
        (got,) = function(**{name: tf.constant(x)}).values()
    assert relative_error(next(iter(expected.values())).numpy(), got.numpy()) <= 1e-6


@needs_ops
@pytest.mark.long
def test_a_fused_model_is_served_after_the_library_is_loaded(tmp_path: Path) -> None:
    path = small_model(tmp_path)
    done = optimise(load_model(path))
    assert [one.activation for one in done.fused] == ["relu", "sigmoid"]
    save_model(done.model, tmp_path / "fused")
    x = np.ones((2, 8), np.float32)
    program = (
        "import sys, ascend_ops.tensorflow, numpy as np, tensorflow as tf\n"
        "f = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "(y,) = f(**{k: tf.ones((2, 8)) for k in f.structured_input_signature[1]}).values()\n"
        "print(y.numpy().tolist())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "fused")]
    done_there = subprocess.run(command, capture_output=True, text=True, check=True)
    function = tf.saved_model.load(str(path)).signatures["serving_default"]
    (expected,) = function(**{next(iter(function.structured_input_signature[1])): x}).values()
    assert np.allclose(json.loads(done_there.stdout), expected.numpy(), rtol=1e-5)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = small_model(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/saved_model.pb").write_bytes(b"\x00broken")
    (tmp_path / "text.pb").write_text("hello")
    for arguments, message in (
        ((tmp_path / "none",), "there is no model at"),
        ((tmp_path,), "is no SavedModel: it has no saved_model.pb"),
        ((tmp_path / "broken",), "cannot load"),
        ((tmp_path / "text.pb",), "is no frozen graph"),
        ((path, "train"), r"has no signature train; it has .*serving_default"),
        ((path, "", ["x"]), "are for frozen graphs"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            load_model(*arguments)
    frozen = tmp_path / "frozen.pb"
    frozen.write_bytes(model_of(dense).graph.SerializeToString())
    with pytest.raises(InvalidInputError, match=r"--outputs TENSOR…, such as BiasAdd"):
        load_model(frozen)
    with pytest.raises(InvalidInputError, match="has no node nothing"):
        load_model(frozen, outputs=["nothing:0"])


@pytest.mark.long
def test_different_answers_are_noticed() -> None:
    one, other = model_of(lambda x: x * 2.0), model_of(lambda x: x * 2.1)
    comparison = compare(one, other, 4)
    assert not comparison.equal
    assert comparison.outputs["y0"] == pytest.approx(0.05, rel=1e-5)
    assert compare(one, one.copy(), 4).equal
    assert relative_error(np.ones(3), np.ones(4)) == float("inf")
    assert relative_error(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == float("inf")
    assert relative_error(np.array([1, 2]), np.array([1, 3])) == float("inf")


def test_inputs_fit_the_table_that_they_index() -> None:
    table = np.zeros((7, 3), np.float32)
    spec = tf.TensorSpec([None, 5], tf.int32, "x")
    model = model_of(lambda x: tf.gather(table, tf.cast(x, tf.int64)), spec)
    (indices,) = make_inputs(model, 400)
    assert (indices.shape, indices.dtype) == ((400, 5), tf.int32)
    assert set(indices.numpy().ravel().tolist()) == set(range(7))


@pytest.mark.long
def test_the_command_writes_reports_and_never_overwrites(tmp_path: Path) -> None:
    path = small_model(tmp_path)
    command = [sys.executable, "-m", "ascend_ops.graph", "--json", "--without-custom-ops",
               f"--to={tmp_path / 'new'}", str(path)]  # fmt: skip
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["outcome"], answer["fused"]) == ("optimised", [])
    assert answer["comparison"]["equal"]
    assert answer["nodes_after"] < answer["nodes_before"]
    again = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert again.returncode == 2
    assert "is there already; nothing is overwritten" in again.stdout
