"""The cycle estimate: its arithmetic on one tile, overlap, and what the real kernel gains."""

import numpy as np
import pytest
from ascend_ops import cycles
from ascend_ops.abi import DTYPES, load_library


def test_one_tile_takes_what_the_model_says() -> None:
    # 64 floats are one repeat. Vector: Duplicate, Muls, Adds (20 + 1), Exp, Div (20 + 4).
    estimate = cycles.estimate_sigmoid("sigmoid", 64)
    assert estimate.busy["vector"] == 3 * 21 + 2 * 24
    copy = 400 + 256 / 17
    assert estimate.busy["copy_in"] == pytest.approx(copy)
    assert estimate.busy["copy_out"] == pytest.approx(copy)
    # Duplicate runs while the copy in is under way; everything else waits for the step before.
    assert estimate.total == pytest.approx(copy + 2 * 21 + 2 * 24 + copy)
    assert estimate.cores == 1


def test_the_real_kernel_overlaps_and_the_naive_one_does_not() -> None:
    comparison = cycles.compare(4194304)
    for kernel, overlaps in ((comparison.optimised, True), (comparison.naive, False)):
        a_core = sum(kernel.busy.values()) / kernel.cores
        assert (kernel.total < 0.8 * a_core) == overlaps


def test_the_real_kernel_gains_at_least_the_fields_figures() -> None:
    comparison = cycles.compare(4194304)
    assert comparison.speedup >= 4.8
    assert comparison.vector_saving >= 0.68


def test_the_naive_kernel_computes_the_same() -> None:
    x = np.linspace(-9, 9, 10001, dtype=np.float32)
    results = [np.empty_like(x), np.empty_like(x)]
    for name, y in zip(("sigmoid", "sigmoid_naive"), results, strict=True):
        load_library("checked").operators[name].estimate([x, y], DTYPES[0], [x.size])
    assert np.array_equal(results[0], results[1])


def test_a_fast_build_counts_nothing() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(ValueError, match='only the build "checked" estimates cycles'):
        load_library().operators["sigmoid"].estimate([x, x.copy()], DTYPES[0], [8])
