"""Each operator in each type and build against its float64 reference."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ascend_ops
import numpy as np
import pytest
from ascend_ops import numpy_ops
from ascend_ops.abi import DTYPES
from ascend_ops.spec import OperatorSpec, Tolerance, all_specs, max_error_ulps
from hypothesis import given, settings
from hypothesis import strategies as st

SPECS = all_specs()
# 1 / (1 + e^-x) by mpmath with 60 digits, rounded to float: right values from another program.
MPMATH_VALUES = {
    -80.0: 1.8048513878454153e-35,
    -10.0: 4.539786870243439e-05,
    -1.0: 0.2689414213699951,
    0.5: 0.6224593312018546,
    3.0: 0.9525741268224334,
}

# The distance from 1 to the next number.
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def error_of(spec: OperatorSpec, arrays: tuple[Any, ...], variant: str | None = None) -> float:
    """The error of one call, in units in the last place."""
    got = getattr(numpy_ops, spec.name)(*arrays, variant=variant)
    assert got.dtype == arrays[0].dtype
    assert not spec.elementwise or got.shape == arrays[0].shape
    return max_error_ulps(got, spec.exact(arrays), spec.tolerances[arrays[0].dtype.name])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_length_is_within_tolerance(
    spec: OperatorSpec, dtype: np.dtype[Any], variant: str
) -> None:
    generator = np.random.default_rng(42)
    for length in spec.lengths:
        error = error_of(spec, spec.inputs(length, dtype, generator), variant)
        assert error <= spec.tolerances[dtype.name].ulps, f"length {length}"


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_four_million_elements_are_within_tolerance(
    spec: OperatorSpec, dtype: np.dtype[Any], variant: str
) -> None:
    arrays = spec.inputs(4194304, dtype, np.random.default_rng(7))
    assert error_of(spec, arrays, variant) <= spec.tolerances[dtype.name].ulps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_one_pass_of_a_fast_build_gives_the_emulated_kernels_numbers(
    dtype: np.dtype[Any], variant: str
) -> None:
    if variant == "checked":
        pytest.skip("the checked build has the emulated kernel alone")
    generator = np.random.default_rng(3)
    for length in (0, 1, 15, 16, 17, 1023, 1025, 32769, 100003):
        x = (30 * generator.normal(size=length)).astype(dtype)
        x[:3] = [np.inf, -np.inf, np.nan][: min(3, length)]
        own = numpy_ops.elementwise("sigmoid", [x], variant)
        emulated = numpy_ops.elementwise("sigmoid_cpusim", [x], variant)
        assert np.array_equal(own, emulated, equal_nan=True), length


def test_the_one_pass_gives_the_emulated_kernels_number_for_every_half(variant: str) -> None:
    if variant == "checked":
        pytest.skip("the checked build has the emulated kernel alone")
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    own = numpy_ops.elementwise("sigmoid", [every], variant)
    emulated = numpy_ops.elementwise("sigmoid_cpusim", [every], variant)
    assert np.array_equal(own, emulated, equal_nan=True)


@pytest.mark.parametrize("dtype", [DTYPES[1], DTYPES[2]], ids=str)
def test_sigmoid_of_every_16_bit_number_is_within_one_ulp(
    dtype: np.dtype[Any], variant: str
) -> None:
    spec = next(spec for spec in SPECS if spec.name == "sigmoid")
    every = np.arange(65536, dtype=np.uint16).view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        assert error_of(spec, (every,), variant) <= 1.0


@pytest.mark.parametrize(("x", "y"), MPMATH_VALUES.items())
def test_sigmoid_equals_mpmath(x: float, y: float, variant: str) -> None:
    got = ascend_ops.sigmoid(np.array([x], np.float32), variant=variant)
    np.testing.assert_array_max_ulp(got, np.array([y], np.float32), maxulp=2)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), max_size=8),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_and_type_is_within_tolerance(
    shape: list[int], dtype: np.dtype[Any], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    for spec in SPECS:
        if not spec.elementwise:
            continue
        arrays = spec.inputs(int(np.prod(shape, dtype=np.int64)), dtype, generator)
        shaped = tuple(array.reshape(shape) for array in arrays)
        assert error_of(spec, shaped, "checked") <= spec.tolerances[dtype.name].ulps


def test_a_strided_and_an_unaligned_view_give_the_same_as_a_copy(variant: str) -> None:
    base = np.linspace(-9, 9, 2001, dtype=np.float32)
    for view in (base[::2], base[1:], base[::-1], base[:2000].reshape(40, 50).T):
        copy = ascend_ops.sigmoid(view.copy(), variant=variant)
        assert np.array_equal(ascend_ops.sigmoid(view, variant=variant), copy)


def test_concurrent_calls_give_what_serial_calls_give() -> None:
    inputs = [np.random.default_rng(i).normal(size=70001).astype(np.float32) for i in range(8)]
    serial = [ascend_ops.sigmoid(x) for x in inputs]

    def work(index: int) -> bool:
        results = [ascend_ops.sigmoid(inputs[index]) for _ in range(10)]
        return all(np.array_equal(result, serial[index]) for result in results)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8


def test_another_dtype_is_refused_with_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"dtype float64 is not supported; cast to float32"):
        ascend_ops.sigmoid(np.zeros(3))


def test_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one shape and dtype, not \(2,\) float32 and \(3,\)"):
        ascend_ops.sigmoid_grad(np.zeros(2, np.float32), np.zeros(3, np.float32))


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ascend_ops.LibraryError, match="there is no build of the kernels called"):
        ascend_ops.sigmoid(np.zeros(3, np.float32), variant="mips")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ulps_are_counted_as_numpy_counts_them(dtype: np.dtype[Any]) -> None:
    one = np.array([1.0], dtype)
    above = np.array([1.0 + EPSILON[dtype.name]], dtype)
    tolerance = Tolerance(ulps=1.0)
    assert max_error_ulps(one, np.array([1.0]), tolerance) == 0.0
    assert max_error_ulps(above, np.array([1.0]), tolerance) == 1.0
    assert max_error_ulps(one, np.array([np.nan]), tolerance) == np.inf
