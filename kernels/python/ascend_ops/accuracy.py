"""The self-test: each operator of this environment against its float64 reference."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ascend_ops.abi import DTYPES, load_library
from ascend_ops.build_record import read_build_record
from ascend_ops.spec import Arguments, OperatorSpec, all_specs, max_error_ulps

FrontEnd = Literal["auto", "numpy", "tensorflow"]
# Long enough for several cores and a short last tile, short enough for a start-up check.
LENGTH = 100003
SEED = 42

Compute = Callable[[OperatorSpec, Arguments], NDArray[Any]]


@dataclass(frozen=True)
class AccuracyRow:
    """One operator in one type: errors in units in the last place of the type."""

    operator: str
    dtype: str
    front_end: str
    max_error_ulps: float
    tolerance_ulps: float
    passed: bool


@dataclass(frozen=True)
class SelftestReport:
    """What `selftest` found; `outcome` is "pass" or "fail"."""

    outcome: Literal["pass", "fail"]
    variant: str
    npu_arch: int
    rows: tuple[AccuracyRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _numpy_compute(spec: OperatorSpec, arrays: Arguments) -> NDArray[Any]:
    from ascend_ops import numpy_ops

    own = getattr(numpy_ops, spec.name, None)
    result: NDArray[Any] = own(*arrays) if own else numpy_ops.elementwise(spec.name, list(arrays))
    return result


def _tensorflow_compute(spec: OperatorSpec, arrays: Arguments) -> NDArray[Any]:
    from ascend_ops import tensorflow

    function = getattr(tensorflow, spec.name, None) or tensorflow.find_op(spec.name)
    if function is None:  # a user's own operator without a TensorFlow op
        return _numpy_compute(spec, arrays)
    result: NDArray[Any] = function(*arrays).numpy()
    return result


def _choose(front_end: FrontEnd) -> tuple[str, Compute]:
    built = bool(read_build_record().tensorflow_version) and find_spec("tensorflow") is not None
    if front_end == "tensorflow" or (front_end == "auto" and built):
        return "tensorflow", _tensorflow_compute
    return "numpy", _numpy_compute


def measure(
    spec: OperatorSpec, dtype: np.dtype[Any], front_end: str, compute: Compute
) -> AccuracyRow:
    """Runs one operator on its case of LENGTH elements and compares it with its reference."""
    arrays = spec.inputs(LENGTH, dtype, np.random.default_rng(SEED))
    tolerance = spec.tolerances[dtype.name]
    error = max_error_ulps(compute(spec, arrays), spec.exact(arrays), tolerance)
    return AccuracyRow(
        spec.name, dtype.name, front_end, error, tolerance.ulps, error <= tolerance.ulps
    )


def selftest(front_end: FrontEnd = "auto") -> SelftestReport:
    """Runs each operator in this environment against its reference.

    `front_end` is "tensorflow", "numpy", or "auto": TensorFlow where it is installed and the
    library was built for it. Raises AscendOpsError when a library is missing or does not fit.
    """
    if front_end not in get_args(FrontEnd):
        raise ValueError(
            f"selftest: no front end {front_end!r}; use one of {', '.join(get_args(FrontEnd))}"
        )
    name, compute = _choose(front_end)
    rows = tuple(measure(spec, dtype, name, compute) for spec in all_specs() for dtype in DTYPES)
    library = load_library()
    outcome: Literal["pass", "fail"] = "pass" if all(row.passed for row in rows) else "fail"
    return SelftestReport(outcome, library.variant, library.npu_arch, rows)
