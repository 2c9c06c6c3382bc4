"""TensorFlow Serving's REST protocol, request side: JSON to arrays.

Source: tensorflow/serving, g3doc/api_rest.md, model_servers/http_rest_api_util.cc (paths) and
util/json_tensor.cc (bodies). Two ways lead to an array: a fast one for plain numbers, by NumPy,
and `_fill`, which walks the JSON as json_tensor.cc does, is the definition of what is accepted,
and finds the words for what is not. The fast way is taken only when its result is the same.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_serving.errors import InvalidRequest, Unimplemented
from ascend_serving.signature import Signature, Tensor

Array = NDArray[Any]
DEFAULT_SIGNATURE = "serving_default"

_MAX_SHOWN = 128  # characters of a JSON value in an error message
_TYPE_NAMES = {
    type(None): "Null", bool: "Boolean", dict: "Object", list: "Array", str: "String",
    int: "Number", float: "Number",
}  # fmt: skip
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class PredictRequest:
    """A decoded request.

    `size` is the common first axis of all inputs, or None where they have none in common.
    `in_rows` says that the body had `instances`, so that the answer has `predictions`.
    """

    signature: Signature
    inputs: Mapping[str, Array]
    in_rows: bool
    size: int | None


def decode_predict(body: bytes, signatures: Mapping[str, Signature]) -> PredictRequest:
    """A :predict body as arrays. Raises `InvalidRequest` or `Unimplemented`."""
    document = _parse(body)
    signature = _choose_signature(document, signatures)
    # Among numbers NumPy silently takes these for 1 and 0; anything else it gives another type.
    plain = b"true" not in body and b"false" not in body
    has_rows, has_columns = "instances" in document, "inputs" in document
    if has_rows and has_columns:
        raise InvalidRequest(
            f"JSON Value: {_show(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist"
        )
    if has_rows:
        arrays = _decode_rows(document["instances"], signature, plain)
    elif has_columns:
        arrays = _decode_columns(document["inputs"], signature, plain)
    else:
        raise InvalidRequest("Missing 'inputs' or 'instances' key")
    return make_request(signature, arrays, in_rows=has_rows)


def make_request(
    signature: Signature, arrays: Mapping[str, Array], *, in_rows: bool
) -> PredictRequest:
    """The request of these inputs. Raises `InvalidRequest` for a shape that the model refuses."""
    for name, array in arrays.items():
        _check_shape(signature.inputs[name], array)
    sizes = {array.shape[0] if array.ndim else None for array in arrays.values()}
    size = sizes.pop() if len(sizes) == 1 else None
    return PredictRequest(signature, arrays, in_rows, size)


def find_signature(name: str, signatures: Mapping[str, Signature]) -> Signature:
    """The signature of that name, "" for the default one. Raises `InvalidRequest`."""
    name = name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise InvalidRequest(f'Serving signature name: "{name}" not found in signature def')
    return signatures[name]


def _parse(body: bytes) -> dict[str, Any]:
    if not body:
        raise InvalidRequest("JSON Parse error: The document is empty")
    try:
        text = body.decode("utf-8-sig").lstrip()
        # What follows the first value is ignored, as TensorFlow Serving does.
        document, _ = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"JSON Parse error: not UTF-8 at offset: {error.start}") from error
    except RecursionError as error:
        raise InvalidRequest("JSON Parse error: nested too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise InvalidRequest(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise InvalidRequest(f"JSON Value: {_show(document)} Is not object")
    return document


def _choose_signature(document: dict[str, Any], signatures: Mapping[str, Signature]) -> Signature:
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidRequest(
            f"JSON Value: {_show(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return find_signature(name, signatures)


def _decode_rows(rows: Any, signature: Signature, plain: bool) -> dict[str, Array]:
    if not isinstance(rows, list):
        raise InvalidRequest(f"JSON Value: {_show(rows)} Expecting 'instances' to be an list/array")
    if not rows:
        raise InvalidRequest(f"JSON Value: {_show(rows)} No values in 'instances' array")
    named = _is_named(rows[0])
    if not named and len(signature.inputs) > 1:
        raise InvalidRequest(
            "instances is a plain list, but expecting list of objects as multiple "
            f"input tensors required: {','.join(signature.inputs)}"
        )
    for index, row in enumerate(rows):
        if _is_named(row) is not named:
            wanted, got = ("object", "list") if named else ("value/list", "object")
            raise InvalidRequest(f"Expecting {wanted} but got {got} at item {index} of input list")
    if not named:
        tensor = next(iter(signature.inputs.values()))
        return {tensor.name: _to_array(rows, tensor, plain)}
    return {
        name: _to_array(column, signature.inputs[name], plain)
        for name, column in _transpose(rows, signature).items()
    }


def _transpose(rows: list[dict[str, Any]], signature: Signature) -> dict[str, list[Any]]:
    names = signature.inputs.keys()
    for index, row in enumerate(rows):
        if row.keys() != names:
            raise InvalidRequest(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{_show(row)} keys must be equal to: {','.join(names)}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _decode_columns(columns: Any, signature: Signature, plain: bool) -> dict[str, Array]:
    if not _is_named(columns):
        if len(signature.inputs) > 1:
            raise InvalidRequest(
                "inputs is a plain value/list, but expecting an object as multiple "
                f"input tensors required: {','.join(signature.inputs)}"
            )
        tensor = next(iter(signature.inputs.values()))
        return {tensor.name: _to_array(columns, tensor, plain)}
    for name in signature.inputs:
        if name not in columns:
            raise InvalidRequest(f"Missing named input: {name} in 'inputs' object.")
    return {
        name: _to_array(columns[name], tensor, plain) for name, tensor in signature.inputs.items()
    }


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _to_array(value: Any, tensor: Tensor, plain: bool) -> Array:
    dtype = tensor.dtype
    if dtype is None or tensor.data_type == "DT_HALF":
        raise Unimplemented(f"Conversion of JSON values to type {tensor.data_type}")
    if plain and dtype.kind in "fiu":
        fast = _convert_numbers(value, dtype)
        if fast is not None:
            return fast
    shape = _measure(value)
    leaves: list[Any] = []
    _fill(value, 0, shape, dtype, leaves)
    array = np.empty(len(leaves), dtype=dtype)
    array[:] = leaves
    return array.reshape(shape)


def _convert_numbers(value: Any, dtype: np.dtype[Any]) -> Array | None:
    """The array, or None when NumPy would accept what the protocol does not."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return None
    if array.dtype == dtype:
        return array
    if dtype.kind == "f" and array.dtype.kind in "fi":
        limit = float(np.finfo(dtype).max) if array.dtype.kind == "f" else _largest_exact(dtype)
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        return array.astype(dtype) if _within(finite, -limit, limit) else None
    if dtype.kind in "iu" and array.dtype.kind == "i":
        bounds = np.iinfo(dtype)
        return array.astype(dtype) if _within(array, bounds.min, bounds.max) else None
    return None


def _within(array: Array, low: float, high: float) -> bool:
    return array.size == 0 or bool(array.min() >= low and array.max() <= high)


def _largest_exact(dtype: np.dtype[Any]) -> int:
    """The largest integer up to which a float type holds every integer."""
    return (1 << (np.finfo(dtype).nmant + 1)) - 1


def _measure(value: Any) -> tuple[int, ...]:
    """The shape that the first elements of nested lists show."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _fill(
    value: Any, level: int, shape: tuple[int, ...], dtype: np.dtype[Any], leaves: list[Any]
) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise InvalidRequest(
                f"JSON Value: {_show(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        leaves.append(_leaf(value, dtype))
        return
    if level >= len(shape):
        raise InvalidRequest(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level]:
        raise InvalidRequest(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for item in value:
        _fill(item, level + 1, shape, dtype, leaves)


def _leaf(value: Any, dtype: np.dtype[Any]) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype.kind == "O":
        return _text(value)
    if dtype.kind == "b" and isinstance(value, bool):
        return value
    if dtype.kind == "f" and is_number:
        return _float_leaf(value, dtype)
    if dtype.kind in "iu" and isinstance(value, int) and is_number:
        bounds = np.iinfo(dtype)
        if bounds.min <= value <= bounds.max:
            return value
    raise InvalidRequest(
        f"JSON Value: {_show(value)} Type: {_TYPE_NAMES[type(value)]} "
        f"is not of expected type: {_type_word(dtype)}"
    )


def _float_leaf(value: int | float, dtype: np.dtype[Any]) -> int | float:
    limit = _largest_exact(dtype) if isinstance(value, int) else float(np.finfo(dtype).max)
    if abs(value) <= limit or value != value or abs(value) == float("inf"):
        return value
    raise InvalidRequest(
        f"Cannot convert JSON value: {_show(value)} to {_type_word(dtype)} "
        "without loss of precision."
    )


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if _is_base64(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest("Unable to base64 decode") from error
    if isinstance(value, dict):
        raise InvalidRequest(f"JSON Value: {_show(value)} not formatted correctly for base64 data")
    raise InvalidRequest(
        f"JSON Value: {_show(value)} Type: {_TYPE_NAMES[type(value)]} "
        "is not of expected type: string"
    )


def _type_word(dtype: np.dtype[Any]) -> str:
    """TensorFlow's word for a type: float and double, not float32 and float64."""
    return {"float32": "float", "float64": "double", "object": "string"}.get(dtype.name, dtype.name)


def _check_shape(tensor: Tensor, array: Array) -> None:
    """Refuses a wrong shape before it is batched, where it would fail its neighbours too."""
    if tensor.shape is None:
        return
    fits = len(tensor.shape) == array.ndim and all(
        wanted is None or wanted == got
        for wanted, got in zip(tensor.shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ",".join("?" if size is None else str(size) for size in tensor.shape)
        got = ",".join(str(size) for size in array.shape)
        raise InvalidRequest(
            f"input {tensor.name} has shape [{got}] but the model takes [{wanted}]"
        )


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
