"""AscendEmbeddingDenseGrad, the Keras layer that trains through it, and the plug-in."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_ops.build_record import PACKAGE_DIR, read_build_record
from ascend_ops.errors import BuildMismatchError, LibraryError

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import keras as ascend_keras
from ascend_ops import tensorflow as ascend_tf
from ascend_ops.plugin import Plugin

INDICES = np.array([[3, 1, 3], [0, 3, 1]])


@pytest.mark.parametrize("index_type", [tf.int32, tf.int64])
def test_the_op_takes_indices_of_any_shape_and_both_types(index_type: tf.DType) -> None:
    grad = tf.reshape(tf.range(12, dtype=tf.float32), (2, 3, 2))
    indices = tf.constant(INDICES, index_type)
    table = ascend_tf.embedding_dense_grad(grad, indices, 5, padding_idx=1)
    assert table.numpy().tolist() == [[6, 7], [0, 0], [0, 0], [12, 15], [0, 0]]


def test_an_index_outside_the_table_is_refused_and_nothing_is_written() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"index 7 at position 1 .* 5 rows"):
        ascend_tf.embedding_dense_grad(tf.ones((3, 2)), tf.constant([0, 7, 9]), 5)


def test_shapes_are_checked_in_the_graph_and_when_it_runs() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="grad must have one more axis"):
        ascend_tf.embedding_dense_grad(tf.ones((3, 2)), tf.constant([0, 1]), 5)
    compute = tf.function(lambda g, i: ascend_tf.embedding_dense_grad(g, i, 5))
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal"):
        compute(tf.ones((3, 2)), tf.constant([0, 1]))
    shape = compute.get_concrete_function(
        tf.TensorSpec((None, 2), tf.float32), tf.TensorSpec((None,), tf.int32)
    ).output_shapes
    assert shape == (5, 2)


@pytest.mark.parametrize("scale", [False, True])
def test_the_second_order_gradient_is_the_numerical_one(scale: bool) -> None:
    grad = tf.random.stateless_normal((6, 2), (1, 2))
    indices = tf.constant(INDICES.ravel(), tf.int32)
    theoretical, numerical = tf.test.compute_gradient(
        lambda g: ascend_tf.embedding_dense_grad(g, indices, 5, 0, scale), [grad], delta=1e-2
    )
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-3)


def both_layers() -> tuple[tf.keras.layers.Layer, tf.keras.layers.Layer]:
    """TensorFlow's layer and this one with the same table."""
    native, ascend = tf.keras.layers.Embedding(50, 8), ascend_keras.Embedding(50, 8)
    native.build((None,))
    ascend.build((None,))
    ascend.set_weights(native.get_weights())
    return native, ascend


def test_the_forward_pass_equals_keras_bit_for_bit() -> None:
    native, ascend = both_layers()
    ids = np.random.default_rng(1).integers(0, 50, (16, 10))
    assert np.array_equal(native(ids), ascend(ids))


def test_the_gradient_reaches_the_table_and_equals_that_of_keras() -> None:
    native, ascend = both_layers()
    ids = tf.constant(np.random.default_rng(2).integers(0, 50, (16, 10)))
    gradients = []
    for layer in (native, ascend):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(layer(ids)))
        gradients.append(tape.gradient(loss, layer.trainable_weights)[0])
    np.testing.assert_allclose(tf.convert_to_tensor(gradients[0]), gradients[1], rtol=1e-5)


@pytest.mark.parametrize("index", [50, -1, 2**32 + 1])
def test_the_layer_refuses_an_index_that_its_table_has_not(index: int) -> None:
    _, layer = both_layers()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{index} is not in \[0, 50\)"
    ) as told:
        layer(tf.constant([index], tf.int64))
    assert "outside the table of 50 rows; correct the index, or enlarge the table" in str(
        told.value
    )


def test_the_layer_refuses_types_that_it_cannot_train_or_look_up() -> None:
    with pytest.raises(ValueError, match="dtype float64 is not supported; use float32, float16 or"):
        ascend_keras.Embedding(5, 2, dtype="float64")
    with pytest.raises(TypeError, match=r"dtype string; they must be numbers of rows\. Turn words"):
        ascend_keras.Embedding(5, 2)(tf.constant([["a"]]))
    with pytest.raises(ValueError, match="padding_idx is 'a', which is not a row of the table"):
        ascend_keras.Embedding(5, 2, padding_idx="a")  # type: ignore[arg-type]


def test_training_follows_keras_and_leaves_the_padding_row_alone() -> None:
    generator = np.random.default_rng(3)
    ids = generator.integers(0, 50, (256, 10))
    target = (ids < 25).mean(axis=1, keepdims=True).astype(np.float32)
    tables: list[np.ndarray] = []
    for layer in (*both_layers(), ascend_keras.Embedding(50, 8, padding_idx=7)):
        tf.keras.utils.set_random_seed(5)
        model = tf.keras.Sequential(
            [layer, tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)]
        )
        model.build((None, 10))
        if not tables:
            start = layer.get_weights()[0]
        layer.set_weights([start])
        model.compile("sgd", "mse")
        history = model.fit(ids, target, epochs=3, batch_size=32, shuffle=False, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]
        tables.append(layer.get_weights()[0])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-6)
    assert np.array_equal(tables[2][7], start[7])
    assert not np.array_equal(tables[1][7], start[7])


def test_the_layer_is_saved_with_its_settings() -> None:
    layer = ascend_keras.Embedding(5, 2, padding_idx=0, scale_grad_by_freq=True)
    again = ascend_keras.Embedding.from_config(layer.get_config())
    assert (again.padding_idx, again.scale_grad_by_freq) == (0, True)
    with pytest.raises(ValueError, match="padding_idx is 9, which is not a row of the table"):
        ascend_keras.Embedding(5, 2, padding_idx=9)


def test_the_plugin_lists_the_ops_with_their_schemas() -> None:
    schemas = Plugin().schemas
    assert {"AscendEmbeddingDenseGrad", "AscendGatherAddRelu", "AscendSigmoid"} < set(schemas)
    schema = schemas["AscendEmbeddingDenseGrad"]
    assert schema.inputs == {"grad": "T", "indices": "Tindices"}
    assert schema.outputs == {"table_grad": "T"}
    assert schema.types["T"] == ("float32", "float16", "bfloat16")
    assert schema.attributes["padding_idx"] == ("int", -1)
    assert schema.attributes["num_weights"] == ("int", None)


def test_the_plugin_gives_a_graph_function_of_each_op() -> None:
    functions = Plugin().functions
    assert functions["AscendSigmoid"](tf.zeros(3)).numpy().tolist() == [0.5, 0.5, 0.5]
    table = functions["AscendEmbeddingDenseGrad"](
        tf.ones((2, 1)), tf.constant([1, 1]), num_weights=2
    )
    assert table.numpy().tolist() == [[0.0], [2.0]]


def test_the_plugin_refuses_a_library_of_another_tensorflow(tmp_path: Path) -> None:
    record = json.loads((PACKAGE_DIR / "build_record.json").read_text(encoding="utf-8"))
    record["tensorflow_version"] = "2.8.0"
    (tmp_path / "build_record.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(BuildMismatchError, match=r"built for TensorFlow 2.8.0"):
        Plugin(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "file too short"),
        (b"junk" * 100, "invalid ELF header"),
        (None, "undefined symbol|has none of this package's ops"),
    ],
)
def test_the_plugin_says_what_to_do_about_a_file_that_is_no_library_of_ops(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    shutil.copy(PACKAGE_DIR / "build_record.json", tmp_path)
    file = tmp_path / "libascend_tensorflow.so"
    # The dispatcher is a good library, and none of ops.
    file.write_bytes(
        (PACKAGE_DIR / "libascend_ops.so").read_bytes() if content is None else content
    )
    told = rf"{file}.*({reason})\. Build it again: pip install"
    with pytest.raises(LibraryError, match=told):
        Plugin(tmp_path)
    file.unlink()
    with pytest.raises(LibraryError, match=rf"{file} is missing\. Build it again: pip install"):
        Plugin(tmp_path)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-1, 3), (3, -2), (2.5, 3), (None, 3)])
def test_the_layer_refuses_sizes_of_which_there_is_no_table(sizes: tuple[Any, Any]) -> None:
    wrong = "input_dim" if sizes[1] == 3 else "output_dim"
    size = sizes[0] if sizes[1] == 3 else sizes[1]
    told = rf"^Embedding: {wrong} is {size}; it must be a whole number of at least 1$"
    with pytest.raises(ValueError, match=told):
        ascend_keras.Embedding(*sizes)


def test_the_gradient_refuses_a_table_and_a_padding_row_that_cannot_be() -> None:
    grad, indices = tf.ones((2, 3)), tf.constant([0, 1])
    with pytest.raises(ValueError, match="num_weights is -2; it must be a whole number"):
        ascend_tf.embedding_dense_grad(grad, indices, -2)
    for padding in (-1, 2):
        told = rf"padding_idx is {padding}, which is not a row of the table of 2 rows; use 0 to"
        with pytest.raises(ValueError, match=told):
            ascend_tf.embedding_dense_grad(grad, indices, 2, padding_idx=padding)
    function = Plugin().functions["AscendEmbeddingDenseGrad"]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="padding_idx is 9, which is not a row"
    ):
        function(grad, indices, num_weights=2, padding_idx=9)
