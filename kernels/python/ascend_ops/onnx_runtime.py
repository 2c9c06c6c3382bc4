"""Running optimised ONNX models in ONNX Runtime, and comparing them with their originals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from ascend_ops.build_record import PACKAGE_DIR, REBUILD, find_library
from ascend_ops.errors import LibraryError

Feeds = dict[str, NDArray[Any]]
# ONNX Runtime's errors share no class but Exception.
ORT_ERRORS: Final = tuple(
    kind
    for kind in vars(ort_errors).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)


@dataclass(frozen=True)
class Comparison:
    """The largest difference of an output: absolute, and relative to the largest value of it."""

    output: str
    absolute: float
    relative: float


def session_options(directory: Path = PACKAGE_DIR) -> onnxruntime.SessionOptions:
    """Options with the custom operators registered, and ONNX Runtime's own optimisation at its
    highest level. LibraryError when the library was not built, or cannot be loaded."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    path = find_library("ascend_onnxruntime", directory)
    try:
        options.register_custom_ops_library(str(path))
    except ORT_ERRORS as error:
        raise LibraryError(
            f"ONNX Runtime cannot load {path}: {str(error).rstrip('.')}. Build it again: {REBUILD}"
        ) from error
    return options


def make_session(
    model: ModelProto, options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.InferenceSession:
    """A session on CPUs; without options, those of `session_options`."""
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options or session_options(),
        providers=["CPUExecutionProvider"],
    )


def compare(
    original: ModelProto,
    optimized: ModelProto,
    feeds: Feeds,
    options: onnxruntime.SessionOptions | None = None,
) -> tuple[Comparison, ...]:
    """Runs both on the same inputs, the original without any optimisation.

    `options` are those of the optimised model's session (see make_session). ValueError when an
    output has another shape or type, or NaN in other places.
    """
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = make_session(original, plain)
    names = [output.name for output in reference.get_outputs()]
    expected = reference.run(names, feeds)
    got = make_session(optimized, options).run(names, feeds)
    return tuple(map(_compare_output, names, expected, got))


def _compare_output(name: str, expected: NDArray[Any], got: NDArray[Any]) -> Comparison:
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        raise ValueError(
            f"output {name} has shape {got.shape} and type {got.dtype}; the original's has "
            f"{expected.shape} and {expected.dtype}"
        )
    left, right = expected.astype(np.float64), got.astype(np.float64)
    if not np.array_equal(np.isnan(left), np.isnan(right)):
        raise ValueError(f"output {name} has NaN where the original's has none, or none there")
    same = (left == right) | np.isnan(left)
    with np.errstate(invalid="ignore"):
        difference = float(np.where(same, 0.0, np.abs(left - right)).max(initial=0.0))
    largest = float(np.abs(left[np.isfinite(left)]).max(initial=0.0))
    return Comparison(name, difference, difference / largest if largest else difference)
