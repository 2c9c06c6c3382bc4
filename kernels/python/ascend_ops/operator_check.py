"""`python -m ascend_ops.operator_check NAME…`: each length of an operator's cases, as JSON.

Every type and two builds, "checked" (which stops where a kernel breaks a rule of the hardware) and
the fastest, against the float64 reference. Run in a process that imports the package to check.
"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ascend_ops import numpy_ops
from ascend_ops.abi import DTYPES, WHOLE_BLOCK_ARCHS, load_library
from ascend_ops.accuracy import SEED
from ascend_ops.errors import ViolationError
from ascend_ops.spec import OperatorSpec, load_spec, max_error_ulps


@dataclass(frozen=True)
class CheckRow:
    """One operator in one type and build: the worst of its lengths; `message` of a broken rule."""

    operator: str
    dtype: str
    variant: str
    max_error_ulps: float
    tolerance_ulps: float
    worst_length: int
    passed: bool
    message: str = ""


def check_operator(name: str) -> list[CheckRow]:
    """All types and both builds of one operator."""
    spec = load_spec(name)
    library = load_library()
    dtypes = DTYPES[:2] if library.npu_arch in WHOLE_BLOCK_ARCHS else DTYPES
    variants = dict.fromkeys(("checked", library.variant))
    return [_check(spec, dtype, variant) for variant in variants for dtype in dtypes]


def _check(spec: OperatorSpec, dtype: np.dtype[Any], variant: str) -> CheckRow:
    generator = np.random.default_rng(SEED)
    tolerance = spec.tolerances[dtype.name]
    worst, worst_length = 0.0, 0
    for length in spec.lengths:
        arguments = spec.inputs(length, dtype, generator)
        try:
            got = _compute(spec, arguments, variant)
        except ViolationError as error:
            return CheckRow(
                spec.name, dtype.name, variant, worst, tolerance.ulps, length, False, str(error)
            )
        error_ulps = max_error_ulps(got, spec.exact(arguments), tolerance)
        if error_ulps > worst:
            worst, worst_length = error_ulps, length
    passed = worst <= tolerance.ulps
    return CheckRow(spec.name, dtype.name, variant, worst, tolerance.ulps, worst_length, passed)


def _compute(spec: OperatorSpec, arguments: tuple[Any, ...], variant: str) -> Any:
    own = getattr(numpy_ops, spec.name, None)
    if own is not None:
        return own(*arguments, variant=variant)
    return numpy_ops.elementwise(spec.name, list(arguments), variant)


def main() -> int:
    """Prints the rows of all named operators as a JSON list; 13 when one fails."""
    rows = [row for name in sys.argv[1:] for row in check_operator(name)]
    print(json.dumps([asdict(row) for row in rows]))
    return 0 if all(row.passed for row in rows) else 13


if __name__ == "__main__":
    sys.exit(main())
