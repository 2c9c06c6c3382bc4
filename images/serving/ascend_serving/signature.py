"""What a model takes and gives: typed, named tensors, the same for every back end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascend_serving import tfproto

_NUMPY_OF: dict[str, np.dtype[Any]] = {
    "DT_FLOAT": np.dtype(np.float32),
    "DT_DOUBLE": np.dtype(np.float64),
    "DT_HALF": np.dtype(np.float16),
    "DT_INT8": np.dtype(np.int8),
    "DT_INT16": np.dtype(np.int16),
    "DT_INT32": np.dtype(np.int32),
    "DT_INT64": np.dtype(np.int64),
    "DT_UINT8": np.dtype(np.uint8),
    "DT_UINT16": np.dtype(np.uint16),
    "DT_UINT32": np.dtype(np.uint32),
    "DT_UINT64": np.dtype(np.uint64),
    "DT_BOOL": np.dtype(np.bool_),
    "DT_STRING": np.dtype(object),
}
_TENSORFLOW_OF = {dtype: name for name, dtype in _NUMPY_OF.items()}
_DATA_TYPE_NAMES = {number: name for name, number in tfproto.DATA_TYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """One named input or output.

    `shape` has None for a size that is free, and is None when the rank itself is unknown.
    `dtype` is None for a TensorFlow type that has no NumPy form.
    """

    name: str
    data_type: str  # TensorFlow's name, such as DT_FLOAT
    shape: tuple[int | None, ...] | None
    graph_name: str = ""  # what the graph calls it, such as serving_default_window:0

    @property
    def dtype(self) -> np.dtype[Any] | None:
        return _NUMPY_OF.get(self.data_type)

    @property
    def has_batch_axis(self) -> bool:
        return bool(self.shape) and self.shape is not None and self.shape[0] is None


@dataclass(frozen=True)
class Signature:
    """Named inputs and outputs; `batchable` when the first axis of all of them is free."""

    name: str
    method_name: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    batchable: bool


def make_signature(
    name: str, method_name: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Signature:
    """A signature; whether it can be batched follows from its shapes."""
    tensors = [*inputs.values(), *outputs.values()]
    batchable = bool(inputs) and all(tensor.has_batch_axis for tensor in tensors)
    return Signature(name, method_name, inputs, outputs, batchable)


def read_signatures(definition: Any) -> dict[str, Signature]:
    """The callable signatures of a MetaGraphDef, by name.

    Signatures without inputs, such as TensorFlow's own `__saved_model_init_op`, are left out.
    """
    return {
        name: make_signature(
            name,
            message.method_name,
            _read_tensors(message.inputs),
            _read_tensors(message.outputs),
        )
        for name, message in definition.signature_def.items()
        if message.inputs and message.outputs
    }


def write_signature_map(signatures: Mapping[str, Signature]) -> Any:
    """The signatures as TensorFlow's SignatureDefMap message."""
    message = tfproto.SignatureDefMap()
    for name, signature in signatures.items():
        target = message.signature_def[name]
        target.method_name = signature.method_name
        _write_tensors(signature.inputs, target.inputs)
        _write_tensors(signature.outputs, target.outputs)
    return message


def data_type_of(dtype: np.dtype[Any]) -> str:
    """TensorFlow's name of a NumPy type."""
    return _TENSORFLOW_OF[dtype]


def _read_tensors(infos: Any) -> dict[str, Tensor]:
    return {name: _read_tensor(name, info) for name, info in sorted(infos.items())}


def _read_tensor(name: str, info: Any) -> Tensor:
    data_type = _DATA_TYPE_NAMES.get(info.dtype, "DT_INVALID")
    if info.tensor_shape.unknown_rank:
        return Tensor(name, data_type, None, info.name)
    shape = tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
    return Tensor(name, data_type, shape, info.name)


def _write_tensors(tensors: Mapping[str, Tensor], target: Any) -> None:
    for name, tensor in tensors.items():
        info = target[name]
        info.name = tensor.graph_name or name
        info.dtype = tfproto.DATA_TYPES[tensor.data_type]
        info.tensor_shape.unknown_rank = tensor.shape is None
        for size in tensor.shape or ():
            info.tensor_shape.dim.add(size=-1 if size is None else size)
