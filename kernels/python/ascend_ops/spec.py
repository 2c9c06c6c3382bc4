"""What an operator's folder says about it: reference, cases and tolerances."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_ops.build_record import read_build_record

# The arguments of a call: arrays, the first of which has the operator's dtype, and numbers.
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Tolerance:
    """An error is accepted up to `ulps` units in the last place of the type, or up to `floor`."""

    ulps: float
    floor: float = 0.0


@dataclass(frozen=True)
class OperatorSpec:
    """An operator's own account of itself.

    `inputs` makes the arguments of a case from its length, dtype and generator, and `lengths` are
    the lengths worth testing; `reference` maps the same arguments, floating-point arrays in
    float64, to the exact result in float64. An elementwise operator takes arrays of one shape.
    """

    name: str
    reference: Callable[..., NDArray[np.float64]]
    inputs: Callable[[int, np.dtype[Any], np.random.Generator], Arguments]
    lengths: tuple[int, ...]
    tolerances: dict[str, Tolerance]
    elementwise: bool = True

    def exact(self, arguments: Arguments) -> NDArray[np.float64]:
        """The exact result for the arguments of a call, in float64."""
        dtype = arguments[0].dtype
        return self.reference(
            *[a.astype(np.float64) if getattr(a, "dtype", None) == dtype else a for a in arguments]
        )


# Fraction bits and smallest normal exponent of each type (IEEE 754; bfloat16 has float's range).
FORMATS = {"float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)}


def ulp_size(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[np.float64]:
    """The distance between neighbouring numbers of `dtype` at `values`, in float64."""
    fraction_bits, lowest = FORMATS[dtype.name]
    _, above = np.frexp(np.abs(values))  # |value| < 2^above
    size = np.ldexp(1.0, np.maximum(above - 1, lowest) - fraction_bits)
    return np.asarray(size, np.float64)


def max_error_ulps(got: NDArray[Any], exact: NDArray[np.float64], tolerance: Tolerance) -> float:
    """The largest distance to the correctly rounded result, in units in the last place.

    That is what numpy.testing.assert_array_max_ulp counts. Errors below the floor are 0. Where
    the rounded result is NaN or infinite only the same counts: anything else is infinitely wrong.
    """
    actual = got.astype(np.float64)
    with np.errstate(over="ignore"):
        rounded = exact.astype(got.dtype).astype(np.float64)
    special = ~np.isfinite(rounded)
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    with np.errstate(invalid="ignore"):
        error = np.abs(actual - rounded)
        ulps = np.where(error <= tolerance.floor, 0.0, error / ulp_size(rounded, got.dtype))
    ulps = np.where(special, np.where(same, 0.0, np.inf), ulps)
    ulps = np.where(np.isnan(ulps), np.inf, ulps)
    return float(ulps.max(initial=0.0))


def load_spec(operator: str) -> OperatorSpec:
    """The specification of one operator, from its installed cases module."""
    spec = import_module(f"ascend_ops.cases.{operator}_cases").SPEC
    assert isinstance(spec, OperatorSpec)
    return spec


def all_specs() -> list[OperatorSpec]:
    """The specifications of all operators that were built."""
    return [load_spec(name) for name in read_build_record().operators]
