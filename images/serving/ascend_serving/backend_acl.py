"""Back end that runs an `.om` model on an Ascend NPU through pyACL.

Source: the AscendCL application guide, Python API (acl.init, acl.rt.*, acl.mdl.*). Three of its
rules shape this file: a model is loaded, executed and unloaded in one context; each thread must
make that context its own; and one model id must not be executed by two threads at once. So for
batches to overlap, the model is loaded once for each worker, each copy with its own buffers.

An `.om` is compiled for one batch size: smaller batches are padded with zeros and the answers of
the padding are cut off.
"""

from __future__ import annotations

import importlib
import queue
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ascend_serving.backend import Array, Arrays, BackendSettings
from ascend_serving.errors import BackendMissing, Internal, ModelBroken, StartError
from ascend_serving.protocol import DEFAULT_SIGNATURE
from ascend_serving.signature import Signature, Tensor, data_type_of, make_signature

_ALREADY_INITIALISED = 100002  # ACL_ERROR_REPEAT_INITIALIZE
_HUGE_FIRST = 0  # ACL_MEM_MALLOC_HUGE_FIRST
_HOST_TO_DEVICE = 1  # ACL_MEMCPY_HOST_TO_DEVICE
_DEVICE_TO_HOST = 2  # ACL_MEMCPY_DEVICE_TO_HOST
# aclDataType, from acl_base.h
_NUMPY_OF: dict[int, np.dtype[Any]] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float16),
    2: np.dtype(np.int8),
    3: np.dtype(np.int32),
    4: np.dtype(np.uint8),
    6: np.dtype(np.int16),
    7: np.dtype(np.uint16),
    8: np.dtype(np.uint32),
    9: np.dtype(np.int64),
    10: np.dtype(np.uint64),
    11: np.dtype(np.float64),
    12: np.dtype(np.bool_),
}
_HALF = np.dtype(np.float16)
_FLOAT = np.dtype(np.float32)


class AclError(Exception):
    """A pyACL function returned something other than 0."""


class _Acl:
    """pyACL with its return codes turned into exceptions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def get(self, name: str, *arguments: Any) -> Any:
        """A function that returns a value alone, such as a count."""
        function = self._module
        for part in name.split("."):
            function = getattr(function, part)
        return function(*arguments)

    def make(self, name: str, *arguments: Any) -> Any:
        """A function that returns (value, code)."""
        value, code = self.get(name, *arguments)
        self._check(name, code)
        return value

    def do(self, name: str, *arguments: Any) -> None:
        """A function that returns a code."""
        self._check(name, self.get(name, *arguments))

    def initialise(self, config: str | None) -> bool:
        """Whether this call initialised ACL, so that whoever did it first also finalises it."""
        code = self._module.init(config) if config else self._module.init()
        if code == _ALREADY_INITIALISED:
            return False
        self._check("init", code)
        return True

    def _check(self, name: str, code: int) -> None:
        if code != 0:
            detail = self._module.get_recent_err_msg() or "no details"
            raise AclError(f"acl.{name} returned {code}: {detail}")


@dataclass(frozen=True)
class _Port:
    """One input or output of the compiled model."""

    name: str
    shape: tuple[int, ...]  # with the compiled batch size first
    dtype: np.dtype[Any]
    size_bytes: int  # of its device buffer, which may be padded

    @property
    def tensor(self) -> Tensor:
        """As a client sees it: free first axis, and float for half, which JSON has no form for."""
        dtype = _FLOAT if self.dtype == _HALF else self.dtype
        return Tensor(self.name, data_type_of(dtype), (None, *self.shape[1:]))


@dataclass(frozen=True)
class _Copy:
    """One loaded copy of the model with its device buffers: what one thread at a time may use."""

    model_id: int
    input_set: int
    output_set: int
    input_buffers: tuple[int, ...]
    output_buffers: tuple[int, ...]


class AclBackend:
    """An `.om` model; see `backend.Backend`."""

    name = "acl"
    op_backend = "npu"

    def __init__(self, acl: _Acl, settings: BackendSettings) -> None:
        self._acl = acl
        with ExitStack() as stack:
            self._context = _open_device(acl, settings, stack)
            model = str(settings.artifact.path)
            copies = [_load_copy(acl, model, stack) for _ in range(settings.concurrency)]
            self._inputs, self._outputs = _read_ports(acl, copies[0].model_id)
            self.max_batch: int | None = _compiled_batch(self._inputs, self._outputs)
            self._free: queue.SimpleQueue[_Copy] = queue.SimpleQueue()
            for copy in copies:
                self._free.put(copy)
            self._stack = stack.pop_all()
        self.runtime = f"acl {acl.get('get_soc_name')} device {settings.device}"
        self.signatures: Mapping[str, Signature] = {
            DEFAULT_SIGNATURE: make_signature(
                DEFAULT_SIGNATURE,
                "tensorflow/serving/predict",
                {port.name: port.tensor for port in self._inputs},
                {port.name: port.tensor for port in self._outputs},
            )
        }

    def run(self, signature: str, inputs: Arrays) -> dict[str, Array]:
        size = len(inputs[self._inputs[0].name])
        copy = self._free.get()
        try:
            self._acl.do("rt.set_context", self._context)
            return self._run(copy, inputs, size)
        except AclError as error:
            raise Internal(str(error)) from error
        finally:
            self._free.put(copy)

    def _run(self, copy: _Copy, inputs: Arrays, size: int) -> dict[str, Array]:
        for port, buffer in zip(self._inputs, copy.input_buffers, strict=True):
            host = _pad(inputs[port.name], port)
            self._acl.do(
                "rt.memcpy",
                *(buffer, port.size_bytes, host.ctypes.data, host.nbytes, _HOST_TO_DEVICE),
            )
        self._acl.do("mdl.execute", copy.model_id, copy.input_set, copy.output_set)
        outputs: dict[str, Array] = {}
        for port, buffer in zip(self._outputs, copy.output_buffers, strict=True):
            host = np.empty(port.shape, port.dtype)
            self._acl.do(
                "rt.memcpy",
                *(host.ctypes.data, host.nbytes, buffer, host.nbytes, _DEVICE_TO_HOST),
            )
            outputs[port.name] = host[:size].astype(_FLOAT if port.dtype == _HALF else port.dtype)
        return outputs

    def close(self) -> None:
        self._acl.do("rt.set_context", self._context)
        self._stack.close()


def load(settings: BackendSettings) -> AclBackend:
    """Loads the model onto the device. Raises `BackendMissing` or `ModelBroken`."""
    try:
        module = importlib.import_module("acl")
    except ImportError as error:
        raise BackendMissing(
            f"cannot serve {settings.artifact.path} with the back end acl",
            f"pyACL, the Python module acl of CANN, cannot be imported ({error})",
            "Install the CANN toolkit and source its set_env.sh, or serve a SavedModel with "
            "--backend tensorflow.",
        ) from error
    try:
        return AclBackend(_Acl(module), settings)
    except AclError as error:
        raise ModelBroken(
            f"cannot load {settings.artifact.path} on device {settings.device}",
            str(error),
            "Check the device (npu-smi info), that the model was compiled for its chip, and that "
            f"its memory holds {settings.concurrency} copies (--workers).",
        ) from error


def _open_device(acl: _Acl, settings: BackendSettings, stack: ExitStack) -> int:
    config = str(settings.acl_config) if settings.acl_config else None
    if acl.initialise(config):
        stack.callback(_release, acl, "finalize")
    acl.do("rt.set_device", settings.device)
    stack.callback(_release, acl, "rt.reset_device", settings.device)
    context: int = acl.make("rt.create_context", settings.device)
    stack.callback(_release, acl, "rt.destroy_context", context)
    return context


def _load_copy(acl: _Acl, path: str, stack: ExitStack) -> _Copy:
    model_id: int = acl.make("mdl.load_from_file", path)
    stack.callback(_release, acl, "mdl.unload", model_id)
    description = _describe(acl, model_id, stack)
    sets: list[int] = []
    buffers: list[tuple[int, ...]] = []
    for side in ("input", "output"):
        count = acl.get(f"mdl.get_num_{side}s", description)
        sizes = [acl.get(f"mdl.get_{side}_size_by_index", description, i) for i in range(count)]
        dataset = acl.get("mdl.create_dataset")
        stack.callback(_release, acl, "mdl.destroy_dataset", dataset)
        buffers.append(tuple(_add_buffer(acl, dataset, size, stack) for size in sizes))
        sets.append(dataset)
    return _Copy(model_id, sets[0], sets[1], buffers[0], buffers[1])


def _add_buffer(acl: _Acl, dataset: int, size_bytes: int, stack: ExitStack) -> int:
    address: int = acl.make("rt.malloc", size_bytes, _HUGE_FIRST)
    stack.callback(_release, acl, "rt.free", address)
    buffer = acl.get("create_data_buffer", address, size_bytes)
    stack.callback(_release, acl, "destroy_data_buffer", buffer)
    acl.make("mdl.add_dataset_buffer", dataset, buffer)
    return address


def _describe(acl: _Acl, model_id: int, stack: ExitStack) -> int:
    description: int = acl.get("mdl.create_desc")
    stack.callback(_release, acl, "mdl.destroy_desc", description)
    acl.do("mdl.get_desc", description, model_id)
    return description


def _release(acl: _Acl, name: str, *arguments: Any) -> None:
    """Frees something; a failure here has no remedy and must not hide the first error."""
    acl.get(name, *arguments)


def _read_ports(acl: _Acl, model_id: int) -> tuple[list[_Port], list[_Port]]:
    with ExitStack() as stack:
        description = _describe(acl, model_id, stack)
        return _read_side(acl, description, "input"), _read_side(acl, description, "output")


def _read_side(acl: _Acl, description: int, side: str) -> list[_Port]:
    count = acl.get(f"mdl.get_num_{side}s", description)
    ports = [_read_port(acl, description, side, index) for index in range(count)]
    names = [port.name for port in ports]
    return [
        replace(port, name=f"{port.name}_{index}") if names.count(port.name) > 1 else port
        for index, port in enumerate(ports)
    ]


def _read_port(acl: _Acl, description: int, side: str, index: int) -> _Port:
    dims = acl.make(f"mdl.get_{side}_dims", description, index)
    number = acl.get(f"mdl.get_{side}_data_type", description, index)
    if number not in _NUMPY_OF:
        raise _refuse(f"its {side} {dims['name']} has the ACL type {number}")
    return _Port(
        name=_short_name(dims["name"]),
        shape=tuple(dims["dims"]),
        dtype=_NUMPY_OF[number],
        size_bytes=acl.get(f"mdl.get_{side}_size_by_index", description, index),
    )


def _short_name(name: str) -> str:
    """ATC names an output `operator:index:tensor`; the tensor's name is what the model's author
    gave it. Without one, the operator's."""
    operator, *rest = name.split(":")
    return rest[-1] if rest and rest[-1] and not rest[-1].isdigit() else operator


def _compiled_batch(inputs: list[_Port], outputs: list[_Port]) -> int:
    ports = [*inputs, *outputs]
    sizes = {port.shape[0] if port.shape else 0 for port in ports}
    if len(sizes) != 1 or min(sizes) < 1:
        shapes = ", ".join(f"{port.name} {list(port.shape)}" for port in ports)
        raise _refuse(f"its first axes are not one fixed batch size ({shapes})")
    return sizes.pop()


def _refuse(why: str) -> StartError:
    return ModelBroken(
        "cannot serve this .om",
        why,
        "Compile it again with one batch size: atc --input_shape=NAME:32,… without "
        "--dynamic_batch_size.",
    )


def _pad(array: Array, port: _Port) -> Array:
    """The batch as the model takes it: its type, contiguous, zeros after the last instance."""
    if len(array) == port.shape[0] and array.dtype == port.dtype:
        return np.ascontiguousarray(array)
    padded = np.zeros(port.shape, port.dtype)
    padded[: len(array)] = array
    return padded
