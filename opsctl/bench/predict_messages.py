"""TensorFlow Serving's messages of `Predict`, and JSON bodies of `:predict` as such.

Source: tensorflow/serving, apis/model.proto, predict.proto, get_model_metadata.proto, and
tensorflow/core, framework/tensor.proto, tensor_shape.proto, types.proto, protobuf/meta_graph.proto:
their field numbers and types; fields that are not listed are skipped. Names of messages are not on
the wire, so they are this package's own and never clash with TensorFlow's.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsctl.bench.signature import SIGNATURE, Input
from opsctl.errors import ConfigError

PACKAGE = "opsctl.predict"

MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Int64Value": {"value": (1, "int64")},
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "Int64Value"),
        "signature_name": (3, "string"),
    },
    "Dim": {"size": (1, "int64")},
    "TensorShape": {"dim": (2, "*Dim"), "unknown_rank": (3, "bool")},
    "Tensor": {
        "dtype": (1, "int32"),
        "tensor_shape": (2, "TensorShape"),
        "tensor_content": (4, "bytes"),
        "string_val": (8, "*bytes"),
    },
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "map:Tensor")},
    "MetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "*string")},
    "MetadataResponse": {"metadata": (2, "map:Any")},
    "TensorInfo": {
        "name": (1, "string"),
        "dtype": (2, "int32"),
        "tensor_shape": (3, "TensorShape"),
    },
    "Signature": {"inputs": (1, "map:TensorInfo")},
    "SignatureMap": {"signature_def": (1, "map:Signature")},
}
"""Message → field → (number, type); `*` repeats, `map:` is a map from text. An enum is an int32."""

SIGNATURES = "signature_def"
"""The metadata that says what a model takes."""

TYPES: dict[str, tuple[int, np.dtype[Any]]] = {
    "DT_FLOAT": (1, np.dtype("<f4")),
    "DT_DOUBLE": (2, np.dtype("<f8")),
    "DT_INT32": (3, np.dtype("<i4")),
    "DT_UINT8": (4, np.dtype("u1")),
    "DT_INT16": (5, np.dtype("<i2")),
    "DT_INT8": (6, np.dtype("i1")),
    "DT_STRING": (7, np.dtype(object)),
    "DT_INT64": (9, np.dtype("<i8")),
    "DT_BOOL": (10, np.dtype("?")),
    "DT_UINT16": (17, np.dtype("<u2")),
    "DT_HALF": (19, np.dtype("<f2")),
    "DT_UINT32": (22, np.dtype("<u4")),
    "DT_UINT64": (23, np.dtype("<u8")),
}
"""Number (types.proto) and bytes of each type that has a form in JSON."""

KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}
"""Kinds of values that JSON may have for each kind of type."""

NAMES = {number: name for name, (number, _) in TYPES.items()}


@dataclass(frozen=True)
class Model:
    """What a request is for; `version` None is the newest."""

    name: str
    version: int | None = None


@cache
def message(name: str) -> Any:
    """The class of a message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=PACKAGE, package=PACKAGE, syntax="proto3")
    for message_name, fields in MESSAGES.items():
        made = file.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            _add_field(made, field_name, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _add_field(made: Any, name: str, number: int, kind: str) -> None:
    field = made.field.add(name=name, number=number)
    field.label = field.LABEL_OPTIONAL
    if kind.startswith("map:"):
        entry = made.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, kind.removeprefix("map:"))
        kind = f"*{made.name}.{entry.name}"
    if kind.startswith("*"):
        field.label = field.LABEL_REPEATED
    kind = kind.removeprefix("*")
    scalar = getattr(field, f"TYPE_{kind.upper()}", None)
    field.type = field.TYPE_MESSAGE if scalar is None else scalar
    if scalar is None:
        field.type_name = f".{PACKAGE}.{kind}"


def metadata_request(model: Model) -> bytes:
    """The question what a model takes."""
    made = message("MetadataRequest")(metadata_field=[SIGNATURES])
    _name(made.model_spec, model)
    return _bytes(made)


def signatures_of(answer: bytes) -> dict[str, tuple[Input, ...]]:
    """The inputs of each signature. Raises ValueError for another message."""
    from google.protobuf.message import DecodeError

    try:
        packed = message("MetadataResponse").FromString(answer).metadata[SIGNATURES]
        found = message("SignatureMap").FromString(packed.value).signature_def
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return {name: _inputs(signature) for name, signature in found.items() if signature.inputs}


def _inputs(signature: Any) -> tuple[Input, ...]:
    result = []
    for name, info in sorted(signature.inputs.items()):
        if info.tensor_shape.unknown_rank:
            raise ValueError(f"the rank of input {name} is unknown")
        sizes = tuple(dim.size for dim in info.tensor_shape.dim)
        result.append(Input(name, NAMES.get(info.dtype, f"type {info.dtype}"), sizes))
    return tuple(result)


def predict_request(
    body: bytes, model: Model, signatures: Mapping[str, tuple[Input, ...]]
) -> bytes:
    """A JSON body of `:predict` as a PredictRequest. Raises ConfigError for what is none."""
    try:
        return _predict_request(json.loads(body), model, signatures)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ConfigError(
            "a request of the benchmark can't be sent by gRPC",
            why=f"{_shown(body)}: {error}",
            next_step="Write it as for :predict ({instances: […]} or {inputs: …}), or set"
            " bench.protocol to rest.",
        ) from error


def _predict_request(
    document: Any, model: Model, signatures: Mapping[str, tuple[Input, ...]]
) -> bytes:
    if not isinstance(document, dict):
        raise TypeError("it is no object")
    signature = document.get("signature_name") or SIGNATURE
    if signature not in signatures:
        raise KeyError(f"the model has no signature {signature}")
    inputs = signatures[signature]
    made = message("PredictRequest")()
    _name(made.model_spec, model)
    made.model_spec.signature_name = signature
    for one, values in zip(inputs, _columns(document, inputs), strict=True):
        _fill(made.inputs[one.name], one, values)
    return _bytes(made)


def _columns(document: Mapping[str, Any], inputs: Sequence[Input]) -> list[Any]:
    """The values of each input."""
    if ("instances" in document) == ("inputs" in document):
        raise ValueError("it has not exactly one of instances and inputs")
    names = [one.name for one in inputs]
    if "inputs" in document:
        given = document["inputs"]
        if len(inputs) == 1 and not (isinstance(given, dict) and names[0] in given):
            return [given]
        return [given[name] for name in names]
    rows = document["instances"]
    if not isinstance(rows, list) or not rows:
        raise ValueError("instances is no list, or empty")
    if len(inputs) == 1 and not (isinstance(rows[0], dict) and names[0] in rows[0]):
        return [rows]
    return [[row[name] for row in rows] for name in names]


def _fill(tensor: Any, one: Input, values: Any) -> None:
    if one.data_type not in TYPES:
        raise TypeError(f"input {one.name} is of {one.data_type}, which has no form in JSON")
    number, dtype = TYPES[one.data_type]
    tensor.dtype = number
    array = _texts(values) if dtype.kind == "O" else _numbers(values, dtype, one.name)
    tensor.tensor_shape.SetInParent()
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if dtype.kind == "O":
        tensor.string_val.extend(array.ravel().tolist())
    else:
        tensor.tensor_content = array.tobytes()


def _numbers(values: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in KINDS[dtype.kind]:
        raise TypeError(f"input {name} has values of the type {found.dtype}")
    if found.size and not _holds(dtype, found):
        raise OverflowError(f"input {name} has values that {dtype.name} does not hold")
    return np.ascontiguousarray(found.astype(dtype)).reshape(found.shape)


def _holds(dtype: np.dtype[Any], found: NDArray[Any]) -> bool:
    if dtype.kind == "b":
        return True
    bounds = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    finite = found[np.isfinite(found)]
    return bool(np.all((finite >= bounds.min) & (finite <= bounds.max)))


def _texts(values: Any) -> NDArray[Any]:
    """Nested lists of texts, or of {"b64": …}, as an array of bytes."""
    shape: list[int] = []
    first = values
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    leaves: list[bytes] = []
    _collect(values, leaves)
    result = np.empty(len(leaves), dtype=object)
    result[:] = leaves
    return result.reshape(shape)


def _collect(value: Any, leaves: list[bytes]) -> None:
    if isinstance(value, list):
        for item in value:
            _collect(item, leaves)
    elif isinstance(value, dict) and value.keys() == {"b64"}:
        try:
            leaves.append(base64.b64decode(value["b64"], validate=True))
        except binascii.Error as error:
            raise ValueError(f"a text is no base64: {error}") from error
    elif isinstance(value, str):
        leaves.append(value.encode())
    else:
        raise TypeError(f"{value!r} is no text")


def _name(spec: Any, model: Model) -> None:
    spec.name = model.name
    if model.version is not None:
        spec.version.value = model.version


def _bytes(made: Any) -> bytes:
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _shown(body: bytes) -> str:
    text = body[:60].decode("utf-8", "replace")
    return text if len(body) <= 60 else f"{text}…"
