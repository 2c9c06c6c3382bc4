"""The embedding benchmark: its indices, its arms' answers, its rows."""

import numpy as np
import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import embedding_benchmark


@pytest.mark.parametrize("kind", ["even", "zipf"])
def test_indices_lie_in_the_table(kind: str) -> None:
    indices = embedding_benchmark.draw_indices(kind, 5000, 70)
    assert indices.shape == (5000,)
    assert indices.dtype == np.dtype(np.int32)
    assert 0 <= indices.min() <= indices.max() < 70


def test_words_repeat_more_often_than_even_draws() -> None:
    counts = [
        np.bincount(embedding_benchmark.draw_indices(k, 5000, 70)).max() for k in ("even", "zipf")
    ]
    assert counts[1] > 5 * counts[0]


def test_the_arms_sum_the_same_rows() -> None:
    indices = embedding_benchmark.draw_indices("zipf", 300, 20)
    # Whole numbers, so that each sum is exact, whatever its order.
    grad = np.random.default_rng(2).integers(-8, 9, (300, 6)).astype(np.float32)
    exact = np.zeros((20, 6), np.float32)
    np.add.at(exact, indices, grad)
    for arm in embedding_benchmark.make_arms(20, 6):
        assert np.array_equal(arm(tf.constant(grad), tf.constant(indices)).numpy(), exact)


def test_a_row_holds_ours_against_the_faster_route() -> None:
    row = embedding_benchmark.measure((64, 10, 8), "even", "float16", 3)
    assert row.case == "64 lookups, 10 x 8"
    assert 0 < row.ratio.low <= row.ratio.speedup <= row.ratio.high
    assert row.verdict == row.ratio.judge()
    assert min(row.custom_us, row.segment_sum_us, row.indexed_slices_us) > 0
