"""Gather, add and relu: shapes, index types, wide and narrow rows, special values, errors."""

from typing import Any

import ascend_ops
import numpy as np
import pytest
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.spec import load_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

SPEC = load_spec("gather_add_relu")
TABLE = np.array([[1, -2], [3, 4], [-5, 6]], np.float32)


def exact(*arguments: Any) -> NDArray[Any]:
    """NumPy's answer, rounded once to the dtype of the table."""
    rounded: NDArray[Any] = SPEC.exact(arguments).astype(arguments[0].dtype)
    return rounded


def test_a_row_is_added_to_each_lookup_and_clipped(variant: str) -> None:
    addend = np.array([1, -1], np.float32)
    y = ascend_ops.gather_add_relu(TABLE, np.array([1, 0, 1]), addend, variant=variant)
    assert y.tolist() == [[4, 3], [2, 0], [4, 3]]


def test_an_addend_of_the_result_s_shape_has_a_row_for_each_lookup(variant: str) -> None:
    addend = np.array([[0, 0], [10, 20], [-3, -5]], np.float32)
    y = ascend_ops.gather_add_relu(TABLE, np.array([2, 2, 1]), addend, variant=variant)
    assert y.tolist() == [[0, 6], [5, 26], [0, 0]]


def test_negative_indices_count_from_the_end(variant: str) -> None:
    zero = np.zeros(2, np.float32)
    y = ascend_ops.gather_add_relu(TABLE, np.array([-1, -3], np.int32), zero, variant=variant)
    assert y.tolist() == [[0, 6], [1, 0]]


@pytest.mark.parametrize("index_dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_indices_of_any_shape_and_integer_type(index_dtype: type[Any], variant: str) -> None:
    table = np.arange(24, dtype=np.float32).reshape(4, 3, 2) - 9
    indices = np.array([[3, 0], [1, 1]], index_dtype)
    addend = np.full((3, 2), 0.5, np.float32)
    y = ascend_ops.gather_add_relu(table, indices, addend, variant=variant)
    assert np.array_equal(y, np.maximum(table[indices] + addend, 0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("lookups", "rows", "width"),
    [
        (5000, 7, 3),
        (90000, 60, 2),
        (3000, 900, 1),
        (640, 5000, 17),
        (40, 50, 5000),
        (3, 2, 40001),
        (1, 1, 4097),
        (0, 9, 4),
        (9, 4, 0),
        (0, 0, 3),
    ],
)
def test_any_size_is_the_rounded_reference(
    lookups: int, rows: int, width: int, dtype: np.dtype[Any]
) -> None:
    generator = np.random.default_rng(lookups + rows + width)
    table = generator.normal(size=(rows, width)).astype(dtype)
    indices = generator.integers(-rows, max(rows, 1), lookups)
    for shape in ((width,), (lookups, width)):
        addend = generator.normal(size=shape).astype(dtype)
        for variant in (None, "checked"):
            y = ascend_ops.gather_add_relu(table, indices, addend, variant=variant)
            assert np.array_equal(y, exact(table, indices, addend))


@settings(max_examples=60, deadline=None)
@given(
    index_shape=st.lists(st.integers(0, 5), max_size=4),
    row_shape=st.lists(st.integers(0, 9), max_size=4),
    rows=st.integers(1, 6),
    dtype=st.sampled_from(DTYPES),
    one_row=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_is_the_rounded_reference(
    index_shape: list[int],
    row_shape: list[int],
    rows: int,
    dtype: np.dtype[Any],
    one_row: bool,
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(rows, *row_shape)).astype(dtype)
    indices = generator.integers(-rows, rows, index_shape)
    addend = generator.normal(size=row_shape if one_row else (*index_shape, *row_shape))
    arguments = (table, indices, np.asarray(addend).astype(dtype))
    y = ascend_ops.gather_add_relu(*arguments, variant="checked")
    assert np.array_equal(y, exact(*arguments))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values_are_those_of_numpy(dtype: np.dtype[Any], variant: str) -> None:
    row = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 6e-8, 1.0])
    table = np.stack([row, -row]).astype(dtype)
    addend = np.array([1, 1, 1, np.nan, 0, 0, 0, np.inf]).astype(dtype)
    y = ascend_ops.gather_add_relu(table, np.array([0, 1]), addend, variant=variant)
    assert np.array_equal(
        y.astype(np.float64), exact(table, np.array([0, 1]), addend).astype(np.float64), True
    )


@pytest.mark.parametrize("index", [3, -4, 2**40, -(2**40)])
def test_an_index_outside_the_table_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match=rf"index {index} at position \(1, 0\) .* 3 rows"):
        ascend_ops.gather_add_relu(TABLE, np.array([[0], [index]]), np.zeros(2, np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 3])
def test_the_kernel_alone_never_follows_an_index_outside_the_table(
    rows: int, dtype: np.dtype[Any], variant: str
) -> None:
    table = np.ones((rows, 5), dtype)
    indices = np.array([rows, 0, -1, -rows - 1, 2**40, -(2**62)])
    addend, y = np.ones((6, 5), dtype), np.zeros((6, 5), dtype)
    load_library(variant).operators["gather_add_relu"].run(
        [table, indices, addend, y], dtype, [6, rows, 5, 0, 8]
    )
    inside = (indices < rows) & (indices >= -rows)
    assert np.isnan(y[~inside].astype(np.float64)).all()
    assert (y[inside].astype(np.float64) == 2).all()


def test_wrong_shapes_and_types_are_refused() -> None:
    indices, floats = np.array([0]), np.zeros(1)
    arguments: tuple[Any, ...] = (TABLE, floats, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"shape \(3,\); it must have that of a row, \(2,\), or"):
        ascend_ops.gather_add_relu(TABLE, indices, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="the addend dtype float64; the table needs rows, and"):
        ascend_ops.gather_add_relu(TABLE, indices, np.zeros(2))
    with pytest.raises(TypeError, match="indices have dtype float64; they must be whole numbers"):
        ascend_ops.gather_add_relu(*arguments)
    with pytest.raises(TypeError, match="dtype float64 is not supported"):
        ascend_ops.gather_add_relu(TABLE.astype(np.float64), indices, np.zeros(2))
