"""TensorFlow through its C API (tensorflow/c/c_api.h), which ships inside the Python wheel.

Why not `import tensorflow`: a service that only runs a SavedModel needs none of it. Measured on
two cores with tensorflow-cpu 2.21.0: 0.55 s from exec to a loaded model instead of 3.6 s, and
320 MB resident instead of 560 MB. The functions used here are declared stable by TensorFlow.

The few calls that take long release the GIL, so several threads can run batches at once
(`TF_SessionRun` is safe to call concurrently). The many short ones keep it: a worker that gives
the GIL up some twenty times a batch has to wait for a busy event loop as many times.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_serving import tfproto
from ascend_serving.native_stderr import mute_native_stderr

Array = NDArray[Any]

_TSTRING_BYTES = 24  # sizeof(TF_TString), core/platform/ctstring_internal.h
_DT_STRING = tfproto.DATA_TYPES["DT_STRING"]
NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.float64),
    3: np.dtype(np.int32),
    4: np.dtype(np.uint8),
    5: np.dtype(np.int16),
    6: np.dtype(np.int8),
    _DT_STRING: np.dtype(object),
    9: np.dtype(np.int64),
    10: np.dtype(np.bool_),
    17: np.dtype(np.uint16),
    19: np.dtype(np.float16),
    22: np.dtype(np.uint32),
    23: np.dtype(np.uint64),
}
_NUMBER_OF = {dtype: number for number, dtype in NUMPY_TYPES.items()}


class TensorFlowError(Exception):
    """A call failed; `code` is the canonical status (google/rpc/code.proto)."""

    def __init__(self, code: int, message: str) -> None:
        # The lines after the first name graph nodes, which say nothing to a caller.
        super().__init__(message.split("\n", 1)[0].strip())
        self.code = code


class _Output(ctypes.Structure):
    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


_P = ctypes.c_void_p
_INT = ctypes.c_int
_TEXT = ctypes.c_char_p
_SIZE = ctypes.c_size_t
_OUTPUTS = ctypes.POINTER(_Output)
_POINTERS = ctypes.POINTER(_P)
_TEXTS = ctypes.POINTER(_TEXT)
_DIMS = ctypes.POINTER(ctypes.c_int64)

# name → (result, arguments), from tensorflow/c/{c_api,tf_status,tf_buffer,tf_tensor,tf_tstring}.h
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "TF_Version": (_TEXT, ()),
    "TF_NewStatus": (_P, ()),
    "TF_DeleteStatus": (None, (_P,)),
    "TF_GetCode": (_INT, (_P,)),
    "TF_Message": (_TEXT, (_P,)),
    "TF_NewBuffer": (ctypes.POINTER(_Buffer), ()),
    "TF_DeleteBuffer": (None, (ctypes.POINTER(_Buffer),)),
    "TF_LoadLibrary": (_P, (_TEXT, _P)),
    "TF_NewGraph": (_P, ()),
    "TF_DeleteGraph": (None, (_P,)),
    "TF_GraphOperationByName": (_P, (_P, _TEXT)),
    "TF_NewSessionOptions": (_P, ()),
    "TF_DeleteSessionOptions": (None, (_P,)),
    "TF_SetConfig": (None, (_P, _TEXT, _SIZE, _P)),
    "TF_LoadSessionFromSavedModel": (
        _P,
        (_P, _P, _TEXT, _TEXTS, _INT, _P, ctypes.POINTER(_Buffer), _P),
    ),
    "TF_CloseSession": (None, (_P, _P)),
    "TF_DeleteSession": (None, (_P, _P)),
    "TF_SessionRun": (
        None,
        (_P, _P, _OUTPUTS, _POINTERS, _INT, _OUTPUTS, _POINTERS, _INT, _POINTERS, _INT, _P, _P),
    ),
    "TF_AllocateTensor": (_P, (_INT, _DIMS, _INT, _SIZE)),
    "TF_DeleteTensor": (None, (_P,)),
    "TF_TensorType": (_INT, (_P,)),
    "TF_NumDims": (_INT, (_P,)),
    "TF_Dim": (ctypes.c_int64, (_P, _INT)),
    "TF_TensorByteSize": (_SIZE, (_P,)),
    "TF_TensorData": (_P, (_P,)),
    "TF_StringInit": (None, (_P,)),
    "TF_StringCopy": (None, (_P, _TEXT, _SIZE)),
    "TF_StringDealloc": (None, (_P,)),
    "TF_StringGetDataPointer": (_P, (_P,)),
    "TF_StringGetSize": (_SIZE, (_P,)),
}
_LONG_CALLS = {
    "TF_LoadLibrary",
    "TF_LoadSessionFromSavedModel",
    "TF_CloseSession",
    "TF_SessionRun",
}
# Where wheels keep the C API: since 2.12 in libtensorflow_cc, before in the Python extension.
_LIBRARY_FILES = (
    ("libtensorflow_framework.so.2",),
    ("libtensorflow_cc.so.2", "python/_pywrap_tensorflow_internal.so"),
)


@dataclass(frozen=True)
class Binding:
    """A signature's tensors inside a session, in a fixed order."""

    input_names: tuple[str, ...]
    inputs: Any  # ctypes array of _Output
    output_names: tuple[str, ...]
    outputs: Any


class TensorFlow:
    """The C API of the installed TensorFlow.

    Raises `FileNotFoundError` when TensorFlow is not installed and `OSError` when its libraries
    cannot be loaded.
    """

    def __init__(self) -> None:
        self.folder = find_package()
        libraries = [_open_first(self.folder, names) for names in _LIBRARY_FILES]
        for name, (result, arguments) in _FUNCTIONS.items():
            function = _find_function(libraries, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        self.version: str = self._call("TF_Version").decode()

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self, name)(*arguments)

    def _checked(self, name: str, *arguments: Any) -> Any:
        """Calls a function whose last argument is a status, and raises when it is not OK."""
        status = self._call("TF_NewStatus")
        try:
            result = self._call(name, *arguments, status)
            code = self._call("TF_GetCode", status)
            if code != 0:
                message = self._call("TF_Message", status)
                raise TensorFlowError(code, message.decode(errors="replace"))
            return result
        finally:
            self._call("TF_DeleteStatus", status)

    def load_library(self, path: Path) -> None:
        """Registers the ops of a custom-op library; stays loaded until the process ends."""
        self._checked("TF_LoadLibrary", str(path).encode())

    def load_saved_model(self, path: Path, threads: int) -> Session:
        """A session on the SavedModel's `serve` graph; `threads` 0 lets TensorFlow choose."""
        graph = self._call("TF_NewGraph")
        options = self._call("TF_NewSessionOptions")
        meta_graph = self._call("TF_NewBuffer")
        tags = (_TEXT * 1)(b"serve")
        try:
            # −1 runs the graph on the calling thread: the batches are already parallel, and a
            # hop to another pool costs more than a small graph does.
            config = tfproto.ConfigProto(
                intra_op_parallelism_threads=threads, inter_op_parallelism_threads=-1
            ).SerializeToString()
            self._checked("TF_SetConfig", options, config, len(config))
            handle = self._checked(
                "TF_LoadSessionFromSavedModel",
                *(options, None, str(path).encode(), tags, 1, graph, meta_graph),
            )
            definition = tfproto.MetaGraphDef()
            buffer = meta_graph.contents
            definition.ParseFromString(ctypes.string_at(buffer.data, buffer.length))
        except BaseException:
            self._call("TF_DeleteGraph", graph)
            raise
        finally:
            self._call("TF_DeleteSessionOptions", options)
            self._call("TF_DeleteBuffer", meta_graph)
        return Session(self, handle, graph, definition)


class Session:
    """A loaded SavedModel. `definition` is its MetaGraphDef; `run` may be called by any thread."""

    def __init__(self, api: TensorFlow, handle: int, graph: int, definition: Any) -> None:
        self._api = api
        self._handle = handle
        self._graph = graph
        self.definition = definition

    def bind(self, signature: Any) -> Binding:
        """Looks up a SignatureDef's tensors; `TensorFlowError` (NOT_FOUND) if one is missing."""
        input_names = tuple(sorted(signature.inputs))
        output_names = tuple(sorted(signature.outputs))
        return Binding(
            input_names,
            self._locate([signature.inputs[name].name for name in input_names]),
            output_names,
            self._locate([signature.outputs[name].name for name in output_names]),
        )

    def _locate(self, tensor_names: Sequence[str]) -> Any:
        located = (_Output * len(tensor_names))()
        for slot, tensor_name in zip(located, tensor_names, strict=True):
            operation, _, index = tensor_name.partition(":")
            slot.operation = self._api._call(
                "TF_GraphOperationByName", self._graph, operation.encode()
            )
            slot.index = int(index or 0)
            if not slot.operation:
                raise TensorFlowError(5, f"the graph has no tensor {tensor_name}")
        return located

    def run(self, binding: Binding, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Output arrays by name. Strings travel as object arrays of bytes."""
        api = self._api
        count_in, count_out = len(binding.input_names), len(binding.output_names)
        values = (_P * count_in)()
        results = (_P * count_out)()
        try:
            for i, name in enumerate(binding.input_names):
                values[i] = _to_tensor(api, inputs[name])
            api._checked(
                "TF_SessionRun",
                *(self._handle, None, binding.inputs, values, count_in),
                *(binding.outputs, results, count_out, None, 0, None),
            )
            return {
                name: _to_array(api, results[i] or 0) for i, name in enumerate(binding.output_names)
            }
        finally:
            for value in values:
                _free_input(api, value)
            for result in results:
                if result:
                    api._call("TF_DeleteTensor", result)

    def close(self) -> None:
        """Frees the session; no `run` may be under way."""
        self._api._checked("TF_CloseSession", self._handle)
        self._api._checked("TF_DeleteSession", self._handle)
        self._api._call("TF_DeleteGraph", self._graph)


def find_package() -> Path:
    """The folder of the installed TensorFlow, found without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the Python package tensorflow is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _open_first(folder: Path, names: Sequence[str]) -> ctypes.CDLL:
    present = [folder / name for name in names if (folder / name).exists()]
    if not present:
        raise FileNotFoundError(f"{folder} has none of {', '.join(names)}")
    # Local, never global: libtensorflow_cc carries its own copy of the SSL functions, and made
    # global they take the place of OpenSSL's in Python's hashlib, which then crashes. A custom-op
    # library names libtensorflow_framework as its dependency, so it needs no global symbols.
    with mute_native_stderr():
        return ctypes.CDLL(str(present[0]), mode=ctypes.RTLD_LOCAL)


def _find_function(libraries: Sequence[ctypes.CDLL], name: str) -> Any:
    for library in libraries:
        loader = library if name in _LONG_CALLS else ctypes.PyDLL(None, handle=library._handle)
        function = getattr(loader, name, None)
        if function is not None:
            return function
    raise OSError(f"this TensorFlow has no {name}")


def _to_tensor(api: TensorFlow, array: Array) -> int:
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    if array.dtype == object:
        return _to_string_tensor(api, array, dims)
    contiguous = np.ascontiguousarray(array)
    number = _NUMBER_OF[array.dtype]
    tensor: int = api._call("TF_AllocateTensor", number, dims, array.ndim, array.nbytes)
    ctypes.memmove(api._call("TF_TensorData", tensor), contiguous.ctypes.data, array.nbytes)
    return tensor


def _to_string_tensor(api: TensorFlow, array: Array, dims: Any) -> int:
    size = array.size * _TSTRING_BYTES
    tensor: int = api._call("TF_AllocateTensor", _DT_STRING, dims, array.ndim, size)
    address = api._call("TF_TensorData", tensor)
    for i, text in enumerate(array.flat):
        element = address + i * _TSTRING_BYTES
        api._call("TF_StringInit", element)
        api._call("TF_StringCopy", element, text, len(text))
    return tensor


def _free_input(api: TensorFlow, tensor: int | None) -> None:
    if not tensor:
        return
    if api._call("TF_TensorType", tensor) == _DT_STRING:
        address = api._call("TF_TensorData", tensor)
        for i in range(api._call("TF_TensorByteSize", tensor) // _TSTRING_BYTES):
            api._call("TF_StringDealloc", address + i * _TSTRING_BYTES)
    api._call("TF_DeleteTensor", tensor)


def _to_array(api: TensorFlow, tensor: int) -> Array:
    rank = api._call("TF_NumDims", tensor)
    shape = tuple(api._call("TF_Dim", tensor, i) for i in range(rank))
    number = api._call("TF_TensorType", tensor)
    dtype = NUMPY_TYPES.get(number)
    if dtype is None:
        raise TensorFlowError(12, f"outputs of TensorFlow type {number} have no NumPy form")
    address = api._call("TF_TensorData", tensor)
    if number == _DT_STRING:
        return _read_strings(api, address, shape)
    array = np.empty(shape, dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array


def _read_strings(api: TensorFlow, address: int, shape: tuple[int, ...]) -> Array:
    array = np.empty(shape, dtype=object)
    for i in range(array.size):
        element = address + i * _TSTRING_BYTES
        data = api._call("TF_StringGetDataPointer", element)
        array.flat[i] = ctypes.string_at(data, api._call("TF_StringGetSize", element))
    return array
