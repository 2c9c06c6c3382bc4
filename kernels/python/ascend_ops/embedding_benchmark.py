"""`python -m ascend_ops.embedding_benchmark`: gradients of embedding tables against TensorFlow's.

TensorFlow has two routes: UnsortedSegmentSum, and IndexedSlices made dense. All three are
tf.functions of the same tensors, called in turn, changing who is first; the ratio is held against
the faster of TensorFlow's two. Indices are drawn evenly, and as words are (Zipf's law), where few
rows have most lookups.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ascend_ops import tensorflow as ascend
from ascend_ops.abi import load_library
from ascend_ops.paired import Ratio, Verdict, ratio_of

# Lookups, rows of the table, width: a small model, a batch of sentences, a large vocabulary.
CASES: Final = ((2048, 1000, 64), (8192, 5000, 64), (16384, 20000, 128), (65536, 50000, 128))
TYPES: Final = ("float32", "float16", "bfloat16")
ZIPF: Final = 1.2
WARM_UP: Final = 5
SEED: Final = 42

HEADER: Final = (
    f"{'case':28} {'indices':8} {'type':9} {'ours µs':>10} {'segments':>10} {'slices':>10} "
    f"{'ratio (95 %)':>20}"
)


@dataclass(frozen=True)
class EmbeddingRow:
    """One case: medians in µs; `ratio` is the faster one of TensorFlow's routes over ours."""

    case: str
    indices: str
    dtype: str
    custom_us: float
    segment_sum_us: float
    indexed_slices_us: float
    ratio: Ratio
    verdict: Verdict


def draw_indices(kind: str, lookups: int, rows: int) -> NDArray[np.int32]:
    """`even` or `zipf`; of a fixed seed, all inside the table."""
    generator = np.random.default_rng(SEED)
    if kind == "even":
        return generator.integers(0, rows, lookups, dtype=np.int32)
    drawn = generator.zipf(ZIPF, lookups) - 1
    return (drawn % rows).astype(np.int32)


def make_arms(rows: int, width: int) -> list[Callable[..., Any]]:
    """Ours, UnsortedSegmentSum, IndexedSlices made dense."""

    def slices(grad: Any, indices: Any) -> Any:
        shape = tf.constant([rows, width], tf.int64)
        return tf.convert_to_tensor(tf.IndexedSlices(grad, indices, shape))

    return [
        tf.function(lambda grad, indices: ascend.embedding_dense_grad(grad, indices, rows)),
        tf.function(lambda grad, indices: tf.math.unsorted_segment_sum(grad, indices, rows)),
        tf.function(slices),
    ]


def measure(case: tuple[int, int, int], kind: str, dtype: str, runs: int) -> EmbeddingRow:
    """Times one case."""
    lookups, rows, width = case
    indices = tf.constant(draw_indices(kind, lookups, rows))
    values = np.random.default_rng(SEED).normal(size=(lookups, width))
    tensors = (tf.cast(tf.constant(values, tf.float32), dtype), indices)
    arms = make_arms(rows, width)
    times = np.empty((runs, len(arms)))
    for run in range(-WARM_UP, runs):
        for arm in range(len(arms))[:: 1 if run % 2 else -1]:
            start = time.perf_counter()
            arms[arm](*tensors)
            if run >= 0:
                times[run, arm] = time.perf_counter() - start
    medians = np.median(times, axis=0)
    best = 1 + int(np.argmin(medians[1:]))
    ratio = ratio_of(times[:, best], times[:, 0])
    name = f"{lookups} lookups, {rows} x {width}"
    ours, segments, slices = (float(median) * 1e6 for median in medians)
    return EmbeddingRow(name, kind, dtype, ours, segments, slices, ratio, ratio.judge())


def format_row(row: EmbeddingRow) -> str:
    """A line of the table."""
    return (
        f"{row.case:28} {row.indices:8} {row.dtype:9} {row.custom_us:10.0f} "
        f"{row.segment_sum_us:10.0f} {row.indexed_slices_us:10.0f} {row.ratio!s:>20} {row.verdict}"
    )


def main() -> int:
    """Prints the table row by row, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=TYPES)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if a.runs < 1:
        parser.error("--runs is at least 1")
    if not a.json:
        print(f"kernels {load_library().variant}, TensorFlow {tf.__version__}\n{HEADER}")
    rows = []
    for dtype in a.dtypes:
        for case in CASES:
            for kind in ("even", "zipf"):
                rows.append(measure(case, kind, dtype, a.runs))
                if not a.json:
                    print(format_row(rows[-1]), flush=True)
    if a.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
