"""TensorFlow's TensorProto to arrays and back.

Source: tensorflow/core/framework/tensor.proto and tensor.cc (Tensor::FromProto). Values stand
either as the machine's bytes in `tensor_content`, or one by one in the field of their type; there
fewer than the shape has mean that the last one is repeated, and none means zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_serving import tfproto
from ascend_serving.errors import InvalidRequest, TooLarge, Unimplemented
from ascend_serving.signature import Tensor, data_type_of

Array = NDArray[Any]

_FIELDS = {
    "DT_FLOAT": "float_val",
    "DT_DOUBLE": "double_val",
    "DT_HALF": "half_val",
    "DT_INT8": "int_val",
    "DT_INT16": "int_val",
    "DT_INT32": "int_val",
    "DT_INT64": "int64_val",
    "DT_UINT8": "int_val",
    "DT_UINT16": "int_val",
    "DT_UINT32": "uint32_val",
    "DT_UINT64": "uint64_val",
    "DT_BOOL": "bool_val",
    "DT_STRING": "string_val",
}
_MAX_AXES = 32  # NumPy's limit (64 from version 2 on)
_NAMES = {number: name for name, number in tfproto.DATA_TYPES.items()}


def read_tensor(message: Any, wanted: Tensor, limit_bytes: int) -> Array:
    """The array of an input. Raises `InvalidRequest`, `Unimplemented`, or `TooLarge` when its
    shape asks for more than `limit_bytes` (one repeated value can stand for any number)."""
    dtype = wanted.dtype
    if dtype is None:
        raise Unimplemented(f"input {wanted.name} is of type {wanted.data_type}")
    if message.dtype != tfproto.DATA_TYPES[wanted.data_type]:
        got = _NAMES.get(message.dtype, message.dtype)
        raise InvalidRequest(
            f"input {wanted.name} is of type {got} but the model takes {wanted.data_type}"
        )
    shape = _read_shape(message.tensor_shape, wanted.name)
    count = math.prod(shape)
    if count * dtype.itemsize > limit_bytes:
        raise TooLarge(f"input {wanted.name} has more than {limit_bytes} bytes")
    if message.tensor_content:
        return _from_content(message.tensor_content, dtype, count, wanted.name).reshape(shape)
    values = getattr(message, _FIELDS[wanted.data_type])
    return _from_values(values, dtype, count, wanted.name).reshape(shape)


def write_tensor(array: Array, message: Any) -> None:
    """Fills a TensorProto; values one by one, as TensorFlow Serving answers."""
    name = data_type_of(array.dtype)
    message.dtype = tfproto.DATA_TYPES[name]
    message.tensor_shape.SetInParent()  # a scalar has a shape too, and it is empty
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    flat = array.ravel()
    values = flat.view(np.uint16) if name == "DT_HALF" else flat
    getattr(message, _FIELDS[name]).extend(values.tolist())


def _read_shape(shape: Any, name: str) -> tuple[int, ...]:
    sizes = tuple(dim.size for dim in shape.dim)
    if len(sizes) > _MAX_AXES:
        raise InvalidRequest(f"input {name} has {len(sizes)} axes; {_MAX_AXES} are the most")
    if shape.unknown_rank or any(size < 0 for size in sizes):
        raise InvalidRequest(f"input {name} has a shape that is not fully known")
    return sizes


def _from_content(content: bytes, dtype: np.dtype[Any], count: int, name: str) -> Array:
    if dtype.kind == "O":
        raise InvalidRequest(f"input {name} has text in tensor_content; use string_val")
    if len(content) != count * dtype.itemsize:
        raise InvalidRequest(
            f"input {name} has {len(content)} bytes of tensor_content for "
            f"{count} values of {dtype.itemsize} bytes"
        )
    if dtype.kind == "b":
        return np.not_equal(np.frombuffer(content, np.uint8), 0)
    return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _from_values(values: Any, dtype: np.dtype[Any], count: int, name: str) -> Array:
    if dtype.kind == "O":
        flat = np.empty(min(len(values), count), dtype=object)
        flat[:] = values[:count]
    elif dtype == np.float16:
        flat = _narrow(np.array(values[:count], np.int64), np.dtype(np.uint16), name).view(dtype)
    elif dtype.itemsize < 4 and dtype.kind in "iu":
        flat = _narrow(np.array(values[:count], np.int64), dtype, name)
    else:
        flat = np.array(values[:count], dtype)
    return _filled(flat, dtype, count)


def _narrow(values: Array, dtype: np.dtype[Any], name: str) -> Array:
    """Refuses what a small type does not hold, where TensorFlow would cut bits off."""
    bounds = np.iinfo(dtype)
    if values.size and not (values.min() >= bounds.min and values.max() <= bounds.max):
        raise InvalidRequest(f"input {name} has values that {dtype.name} does not hold")
    return values.astype(dtype)


def _filled(flat: Array, dtype: np.dtype[Any], count: int) -> Array:
    if flat.size == count:
        return flat
    blank: Any = b"" if dtype.kind == "O" else 0
    rest = np.full(count - flat.size, flat[-1] if flat.size else blank, dtype=dtype)
    return np.concatenate([flat, rest])
