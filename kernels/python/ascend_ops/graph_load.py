"""Reads a SavedModel or a frozen graph, with its variables frozen; writes either of them."""

from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ascend_ops.errors import AscendOpsError, InvalidInputError
from ascend_ops.graph_view import Model, make_callable, split

GRAPH_BYTES_MAX = 2**31 - 1  # what a protocol buffer can hold


def load_ops() -> str:
    """Loads this package's ops, so that models with them can be read; "" or why it cannot."""
    try:
        import ascend_ops.tensorflow  # noqa: F401
    except (AscendOpsError, ImportError) as error:
        return str(error)
    return ""


def load_model(
    path: Path, signature: str = "", inputs: list[str] | None = None,
    outputs: list[str] | None = None,
) -> Model:  # fmt: skip
    """The model at `path`. InvalidInputError says what is missing, and which there would be."""
    if (path / "saved_model.pb").is_file():
        if inputs or outputs:
            raise InvalidInputError("--inputs and --outputs are for frozen graphs; use --signature")
        return _load_saved_model(path, signature)
    if path.is_dir():
        raise InvalidInputError(
            f"{path} is no SavedModel: it has no saved_model.pb. Export the model there: "
            "model.export(path)"
        )
    if not path.is_file():
        raise InvalidInputError(f"there is no model at {path}. Correct the path")
    if signature:
        raise InvalidInputError("--signature is for SavedModels; name --inputs and --outputs")
    return _load_frozen(path, inputs or [], outputs or [])


def _load_saved_model(path: Path, signature: str) -> Model:
    why = load_ops()
    try:
        loaded = tf.saved_model.load(str(path))
    except (OSError, ValueError, KeyError, RuntimeError, tf.errors.OpError, DecodeError) as error:
        hint = f" ({why})" if why else ""
        raise InvalidInputError(
            f"cannot load {path}: {str(error).splitlines()[0]}{hint}. Export the model again"
        ) from error
    names = sorted(loaded.signatures)
    name = signature or ("serving_default" if "serving_default" in names else "")
    if name not in names:
        raise InvalidInputError(
            f"{path} has no signature {name or 'serving_default'}; it has "
            f"{', '.join(names) or 'none'}. Choose one: --signature NAME"
        )
    return _freeze(path, name, loaded.signatures[name])


def _freeze(path: Path, name: str, function: Any) -> Model:
    keywords = function.structured_input_signature[1]
    specs = {key: keywords[key] for key in sorted(keywords)}
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    if len(frozen.inputs) != len(specs):
        raise InvalidInputError(
            f"{path} holds something that cannot be frozen, such as a lookup table: "
            f"{', '.join(t.name for t in frozen.inputs if t.dtype == tf.resource)}. Leave it "
            "outside the model"
        )
    results = sorted(function.structured_outputs)
    return Model(
        frozen.graph.as_graph_def(),
        {key: tensor.name for key, tensor in zip(specs, frozen.inputs, strict=True)},
        {key: tensor.name for key, tensor in zip(results, frozen.outputs, strict=True)},
        name,
        specs,
    )


def _load_frozen(path: Path, inputs: list[str], outputs: list[str]) -> Model:
    load_ops()
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise InvalidInputError(
            f"{path} is no frozen graph: {error}. Name a SavedModel folder, a frozen graph "
            "(.pb) or an ONNX model (.onnx)"
        ) from error
    nodes = {node.name: node for node in graph.node}
    variables = [name for name, node in nodes.items() if node.op in ("VarHandleOp", "VariableV2")]
    if variables:
        raise InvalidInputError(
            f"{path} is not frozen: {variables[0]} is a variable. Optimise the SavedModel instead"
        )
    chosen = inputs or [name for name, node in nodes.items() if node.op == "Placeholder"]
    if not chosen or not outputs:
        used = {split(edge)[0] for node in graph.node for edge in node.input}
        ends = [name for name in nodes if name not in used][:5]
        raise InvalidInputError(
            f"name what {path} computes: --outputs TENSOR…, such as {' '.join(ends)}"
        )
    for name in (*chosen, *outputs):
        if split(name)[0] not in nodes:
            raise InvalidInputError(
                f"{path} has no node {split(name)[0]}; correct --inputs or --outputs"
            )
    feeds = {split(name)[0]: f"{split(name)[0]}:{split(name)[1]}" for name in chosen}
    fetches = {
        split(name)[0].replace("/", "_"): f"{split(name)[0]}:{split(name)[1]}" for name in outputs
    }
    model = Model(graph, feeds, fetches)
    model.specs = _specs(path, model)
    return model


def _specs(path: Path, model: Model) -> dict[str, Any]:
    try:
        function = make_callable(model)
    except (ValueError, KeyError, tf.errors.OpError) as error:
        raise InvalidInputError(
            f"{path} cannot be imported: {error}. Export the model again"
        ) from error
    return {
        name: tf.TensorSpec(tensor.shape, tensor.dtype, name)
        for name, tensor in zip(model.inputs, function.inputs, strict=True)
    }


def save_model(model: Model, path: Path) -> None:
    """Writes a SavedModel folder, or a frozen graph when `path` ends in .pb."""
    if model.graph.ByteSize() > GRAPH_BYTES_MAX:
        raise InvalidInputError(
            "the frozen graph is larger than 2 GiB, which no protocol buffer holds. Serve this "
            "model with its variables"
        )
    try:
        if path.suffix == ".pb":
            path.write_bytes(model.graph.SerializeToString(deterministic=True))
        else:
            tf.saved_model.save(*_module(model, path))
    except OSError as error:
        raise InvalidInputError(
            f"cannot write {path}: {error.strerror or error}. Choose another place: --to PATH"
        ) from error


def _module(model: Model, path: Path) -> tuple[Any, str, Any]:
    function = make_callable(model)

    def serve(*tensors: Any) -> dict[str, Any]:
        return dict(zip(model.outputs, function(*tensors), strict=True))

    specs = [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in model.specs.items()]
    module = tf.Module()
    module.graph = function
    concrete = tf.function(serve).get_concrete_function(*specs)
    return module, str(path), {model.signature: concrete}
