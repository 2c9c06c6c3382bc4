"""ctypes mirror of runtime/ascend_abi.h: finding operators, planning and running them."""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascend_ops.build_record import REBUILD, find_library, read_build_record
from ascend_ops.errors import LibraryError, ViolationError

MAX_SIZES: Final = 16
TILING_BYTES: Final = 256
INVALID: Final = 1
# SoC families without DataCopyPad: their copies are whole blocks, and so must be the buffers.
WHOLE_BLOCK_ARCHS: Final = (1001, 2002)
BLOCK_BYTES: Final = 32
PIPES: Final = ("scalar", "vector", "cube", "copy_l1", "copy_in", "copy_out", "copy_result")

# Types in the order of the ABI's numbers.
DTYPES: Final[tuple[np.dtype[Any], ...]] = (
    np.dtype(np.float32),
    np.dtype(np.float16),
    np.dtype(ml_dtypes.bfloat16),
)


class _Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 512)]


class _Problem(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("sizes", ctypes.c_int64 * MAX_SIZES)]


class _Plan(ctypes.Structure):
    _fields_ = [
        ("core_count", ctypes.c_int32),
        ("workspace_bytes", ctypes.c_uint64),
        ("tiling", ctypes.c_uint8 * TILING_BYTES),
    ]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


_PlanFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Problem), ctypes.POINTER(_Plan), ctypes.POINTER(_Error)
)


class _Operator(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("tensor_count", ctypes.c_int32),
        ("plan", _PlanFunction),
        ("run", ctypes.c_void_p),
    ]


class _Estimate(ctypes.Structure):
    _fields_ = [("total_cycles", ctypes.c_double), ("busy_cycles", ctypes.c_double * len(PIPES))]


_EstimateFunction = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(_Operator),
    ctypes.POINTER(_Problem),
    ctypes.POINTER(_Plan),
    ctypes.POINTER(_Tensor),
    ctypes.POINTER(_Estimate),
    ctypes.POINTER(_Error),
)


class _Library(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_int32),
        ("variant", ctypes.c_char_p),
        ("npu_arch", ctypes.c_int32),
        ("operator_count", ctypes.c_int32),
        ("operators", ctypes.POINTER(ctypes.POINTER(_Operator))),
        ("estimate", _EstimateFunction),
    ]


@dataclass(frozen=True)
class CycleEstimate:
    """What a call is estimated to take on the SoC, in cycles: no measurement.

    `total` is when the last core is done; `busy` how long each pipe works, all cores together.
    """

    total: float
    busy: dict[str, float]
    cores: int


@dataclass(frozen=True)
class Library:
    """The operators of one build, by name."""

    variant: str
    npu_arch: int
    operators: dict[str, "Operator"]


@cache
def _dispatcher() -> ctypes.CDLL:
    path = find_library("ascend_ops")
    try:
        dispatcher = ctypes.CDLL(str(path))
        find, run = dispatcher.ascend_library, dispatcher.ascend_run
    except (OSError, AttributeError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise LibraryError(f"cannot load {path}: {reason}. Build it again: {REBUILD}") from error
    find.restype = ctypes.POINTER(_Library)
    find.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Error)]
    run.argtypes = [
        ctypes.POINTER(_Operator),
        ctypes.POINTER(_Problem),
        ctypes.POINTER(_Plan),
        ctypes.POINTER(_Tensor),
        ctypes.c_int32,
        ctypes.POINTER(_Error),
    ]
    return dispatcher


@cache
def load_library(variant: str | None = None) -> Library:
    """Loads the build called `variant`, by default the fastest that this CPU can run.

    Variants are those of the build record, such as "x86-64-v3" and "checked". LibraryError when
    there is none of that name.
    """
    built = read_build_record().variants
    if variant is not None and variant not in built:
        raise LibraryError(
            f"there is no build of the kernels called {variant!r}: choose one of "
            f"{', '.join(built)}, or none for the fastest that this CPU can run"
        )
    error = _Error()
    name = None if variant is None else variant.encode()
    found = _dispatcher().ascend_library(name, ctypes.byref(error))
    if not found:
        raise LibraryError(error.text.decode(errors="replace"))
    table = found.contents
    operators = [table.operators[i] for i in range(table.operator_count)]
    estimate = table.estimate or None
    named = {
        entry.contents.name.decode(): Operator(entry, estimate, table.npu_arch)
        for entry in operators
    }
    return Library(table.variant.decode(), table.npu_arch, named)


def _raise(code: int, error: _Error) -> None:
    text = error.text.decode(errors="replace")
    raise ValueError(text) if code == INVALID else ViolationError(text)


@dataclass(frozen=True)
class _Call:
    """A planned call; it holds operands and workspace (the last) until the call is over."""

    problem: _Problem
    plan: _Plan
    tensors: "ctypes.Array[_Tensor]"
    buffers: list[NDArray[Any]]


def _whole_blocks(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of `array`, and what is missing to a multiple of a block."""
    padded = np.zeros(-(-array.nbytes // BLOCK_BYTES) * BLOCK_BYTES, np.uint8)
    padded[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return padded


class Operator:
    """One operator of one build. Calls share no state, so threads may call it at once."""

    def __init__(self, entry: "ctypes._Pointer[_Operator]", estimate: Any, npu_arch: int) -> None:
        self._entry = entry
        self._estimate = estimate
        self._whole_blocks = npu_arch in WHOLE_BLOCK_ARCHS
        self.name: str = entry.contents.name.decode()
        self.tensor_count: int = entry.contents.tensor_count

    def run(
        self, arrays: list[NDArray[Any]], dtype: np.dtype[Any], sizes: list[int], threads: int = 1
    ) -> None:
        """Computes into the last of `arrays`, all of them C-contiguous.

        `sizes` are the operator's own numbers (its README). ValueError for sizes it refuses,
        ViolationError when the checked build finds that the kernel broke a rule.
        """
        call = self._plan(arrays, dtype, sizes)
        if call.plan.core_count == 0:
            return
        error = _Error()
        code = _dispatcher().ascend_run(
            self._entry, call.problem, call.plan, call.tensors, threads, error
        )
        if code:
            _raise(code, error)
        self._give_back(call, arrays[-1])

    def run_memory(
        self, operands: list[tuple[int, int]], dtype: int, sizes: list[int], threads: int = 1
    ) -> None:
        """As `run`, on memory: address and bytes of each operand, and the ABI's number of the type.

        For tensors of other libraries, without a copy. The memory must stay alive until the call
        returns. LibraryError in a build for a SoC whose copies are whole blocks: it would read
        and write beyond the end of what is given.
        """
        if self._whole_blocks:
            raise LibraryError(
                f"{self.name}: this build copies whole blocks of {BLOCK_BYTES} bytes, and tensors "
                "end anywhere. Build for SoC family 2201 or 3510"
            )
        error, plan = _Error(), _Plan()
        problem = _Problem(dtype, (ctypes.c_int64 * MAX_SIZES)(*sizes))
        code = self._entry.contents.plan(problem, plan, error)
        if not code and plan.core_count:
            workspace = np.empty(plan.workspace_bytes, np.uint8)
            memory = [*operands, (workspace.ctypes.data, workspace.nbytes)]
            tensors = (_Tensor * len(memory))(*[_Tensor(*part) for part in memory])
            code = _dispatcher().ascend_run(self._entry, problem, plan, tensors, threads, error)
        if code:
            _raise(code, error)

    def estimate(
        self, arrays: list[NDArray[Any]], dtype: np.dtype[Any], sizes: list[int]
    ) -> CycleEstimate:
        """Computes as `run` does, and estimates the cycles on the SoC; "checked" build only."""
        if self._estimate is None:
            raise ValueError(f'{self.name}: only the build "checked" estimates cycles')
        call = self._plan(arrays, dtype, sizes)
        estimate, error = _Estimate(), _Error()
        code = self._estimate(self._entry, call.problem, call.plan, call.tensors, estimate, error)
        if code:
            _raise(code, error)
        self._give_back(call, arrays[-1])
        busy = dict(zip(PIPES, estimate.busy_cycles, strict=True))
        return CycleEstimate(estimate.total_cycles, busy, call.plan.core_count)

    def _plan(self, arrays: list[NDArray[Any]], dtype: np.dtype[Any], sizes: list[int]) -> _Call:
        error = _Error()
        problem = _Problem(DTYPES.index(dtype), (ctypes.c_int64 * MAX_SIZES)(*sizes))
        plan = _Plan()
        code = self._entry.contents.plan(problem, plan, error)
        if code:
            _raise(code, error)
        operands = [_whole_blocks(array) for array in arrays] if self._whole_blocks else arrays
        buffers = [*operands, np.empty(plan.workspace_bytes, np.uint8)]
        tensors = (_Tensor * len(buffers))(
            *[_Tensor(buffer.ctypes.data, buffer.nbytes) for buffer in buffers]
        )
        return _Call(problem, plan, tensors, buffers)

    def _give_back(self, call: _Call, output: NDArray[Any]) -> None:
        if self._whole_blocks:
            output.reshape(-1).view(np.uint8)[:] = call.buffers[-2][: output.nbytes]
