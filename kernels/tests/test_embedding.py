"""The embedding gradient: repeated indices, padding, frequency, wide rows, errors."""

from typing import Any

import ascend_ops
import numpy as np
import pytest
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.spec import load_spec, max_error_ulps

SPEC = load_spec("embedding_dense_grad")


def test_repeated_indices_accumulate_and_unused_rows_are_zero(variant: str) -> None:
    grad = np.array([[1, 2], [10, 20], [100, 200]], np.float32)
    table = ascend_ops.embedding_dense_grad(grad, np.array([2, 0, 2]), 4, variant=variant)
    assert table.tolist() == [[10, 20], [0, 0], [101, 202], [0, 0]]


def test_the_padding_row_stays_zero(variant: str) -> None:
    grad = np.ones((3, 2), np.float32)
    table = ascend_ops.embedding_dense_grad(
        grad, np.array([1, 1, 0]), 2, padding_idx=1, variant=variant
    )
    assert table.tolist() == [[1, 1], [0, 0]]


def test_scaling_divides_by_the_frequency(variant: str) -> None:
    grad = np.array([[1.0], [3.0], [5.0]], np.float32)
    table = ascend_ops.embedding_dense_grad(
        grad, np.array([1, 1, 0]), 2, scale_grad_by_freq=True, variant=variant
    )
    assert table.tolist() == [[5.0], [2.0]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("lookups", "rows", "width"),
    [
        (5000, 7, 3),
        (90000, 60, 2),
        (300, 900, 1),
        (64, 5000, 17),
        (40, 50, 5000),
        (1, 1, 4097),
        (0, 9, 4),
    ],
)
def test_any_size_is_the_sum_of_the_reference(
    lookups: int, rows: int, width: int, dtype: np.dtype[Any]
) -> None:
    generator = np.random.default_rng(lookups + rows + width)
    # Small whole numbers: the sums are exact in float, so that one rounding is the whole error.
    grad = generator.integers(-4, 5, (lookups, width)).astype(dtype)
    arguments = (grad, generator.integers(0, rows, lookups), rows)
    for variant in (None, "checked"):
        got = ascend_ops.embedding_dense_grad(*arguments, variant=variant)
        assert np.array_equal(got, SPEC.exact(arguments).astype(dtype))


def test_the_same_input_gives_the_same_bits_on_any_number_of_threads() -> None:
    arguments = SPEC.inputs(24 * 40000, DTYPES[0], np.random.default_rng(1))
    first = ascend_ops.embedding_dense_grad(*arguments)
    again = ascend_ops.embedding_dense_grad(*arguments)
    serial = ascend_ops.embedding_dense_grad(*arguments, variant="checked")
    assert np.array_equal(first, again)
    assert np.array_equal(first, serial)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1, "scale_grad_by_freq": True}])
@pytest.mark.parametrize(
    ("lookups", "rows", "width"), [(4000, 300, 50), (70, 9, 3000), (3, 40000, 2), (30000, 2, 8)]
)
def test_the_cpu_backend_gives_the_emulated_kernels_numbers(
    lookups: int, rows: int, width: int, options: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    generator = np.random.default_rng(lookups)
    grad = generator.normal(size=(lookups, width)).astype(dtype)
    grad[0, :2] = -0.0, np.inf
    # Most lookups are of few rows, as those of words are.
    indices = (generator.zipf(1.2, lookups) - 1) % rows
    own = ascend_ops.embedding_dense_grad(grad, indices, rows, **options)
    emulated = np.empty((rows, width), dtype)
    sizes = [lookups, rows, width, options.get("padding_idx", -1), len(options) // 2]
    load_library().operators["embedding_dense_grad_cpusim"].run(
        [grad, indices.astype(np.int32), emulated], dtype, sizes, 2
    )
    assert np.array_equal(own.view(np.uint8), emulated.view(np.uint8))


@pytest.mark.parametrize(("index", "rows"), [(4, 4), (-1, 4), (2**40, 4)])
def test_an_index_outside_the_table_is_refused(index: int, rows: int) -> None:
    with pytest.raises(
        IndexError, match=rf"index {index} at position 1 is outside .*{rows} rows; c"
    ):
        ascend_ops.embedding_dense_grad(np.ones((2, 3), np.float32), np.array([0, index]), rows)


@pytest.mark.parametrize("indices", [np.array([0.5, 1.5]), np.array([True, False]), [0, 1], None])
def test_indices_that_are_no_whole_numbers_are_refused(indices: Any) -> None:
    with pytest.raises(TypeError, match=r"^embedding_dense_grad: (indices have dtype|argument 2)"):
        ascend_ops.embedding_dense_grad(np.ones((2, 3), np.float32), indices, 4)


@pytest.mark.parametrize("rows", [-1, 4.5, None])
def test_a_table_of_no_number_of_rows_is_refused(rows: Any) -> None:
    told = rf"num_weights is {rows}; it must be a whole number of at least 0$"
    with pytest.raises(ValueError, match=told):
        ascend_ops.embedding_dense_grad(np.ones((2, 3), np.float32), np.array([0, 1]), rows)


def test_wrong_shapes_and_padding_are_refused() -> None:
    grad = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"not the shape of the indices, \(3,\)"):
        ascend_ops.embedding_dense_grad(grad, np.array([0, 1, 2]), 4)
    for padding in (4, -1):
        told = rf"padding_idx is {padding}, which is not a row of the table of 4 rows; use 0 to"
        with pytest.raises(ValueError, match=told):
            ascend_ops.embedding_dense_grad(grad, np.array([0, 1]), 4, padding_idx=padding)


def test_the_error_measure_sees_a_lost_lookup() -> None:
    arguments = SPEC.inputs(24 * 100, DTYPES[0], np.random.default_rng(1))
    got = ascend_ops.embedding_dense_grad(*arguments)
    got[arguments[1][5]] -= arguments[0][5]
    tolerance = SPEC.tolerances["float32"]
    assert max_error_ulps(got, SPEC.exact(arguments), tolerance) > tolerance.ulps
