"""Runs graphs side by side on the same inputs: answers, time and peak memory."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ascend_ops.errors import AscendOpsError, InvalidInputError
from ascend_ops.graph_view import Model, View, constant, make_callable, split
from ascend_ops.paired import Ratio, ratio_of
from ascend_ops.tolerances import TOLERANCE_OTHER, TOLERANCES

BATCH: Final = 32  # for a first axis that the signature leaves open
OPEN_AXIS: Final = 16  # for any other
SEED: Final = 42
ROUNDS: Final = 31
CALL_S_MIN: Final = 2e-3  # a sample holds so many calls, that the clock's noise is small in it


@dataclass(frozen=True)
class Comparison:
    """One graph against the one before; `peak_saving` is of the memory that a call takes."""

    outputs: dict[str, float]
    equal: bool
    ratio: Ratio
    before_us: float
    after_us: float
    before_peak_bytes: int
    after_peak_bytes: int

    @property
    def peak_saving(self) -> float:
        """0.45: a call takes 45 % less memory than before."""
        if self.before_peak_bytes <= 0:
            return 0.0
        return 1 - self.after_peak_bytes / self.before_peak_bytes


def make_inputs(model: Model, batch: int = BATCH) -> list[Any]:
    """Random tensors of the signature's shapes: normal(0, 1), and indices that each table has."""
    generator = np.random.default_rng(SEED)
    tables = _table_rows(model)
    tensors = []
    for name, spec in model.specs.items():
        if spec.shape.rank is None:
            raise InvalidInputError(
                f"input {name} has no known rank, so no values can be made for it; use --no-compare"
            )
        sizes = [
            size or (batch if axis == 0 else OPEN_AXIS) for axis, size in enumerate(spec.shape)
        ]
        tensors.append(_values(name, spec.dtype, sizes, generator, tables.get(name, 2)))
    return tensors


def _values(
    name: str, dtype: Any, sizes: Sequence[int], generator: np.random.Generator, rows: int
) -> Any:
    if dtype.is_floating:
        return tf.cast(tf.constant(generator.normal(size=sizes), tf.float64), dtype)
    if dtype.is_integer:
        return tf.cast(tf.constant(generator.integers(0, rows, sizes)), dtype)
    if dtype.is_bool:
        return tf.constant(generator.integers(0, 2, sizes).astype(bool))
    raise InvalidInputError(f"input {name} is of type {dtype.name}: no values; use --no-compare")


def _table_rows(model: Model) -> dict[str, int]:
    """Input → rows of the smallest constant table that it indexes, through casts and the like."""
    view = View(model)
    rows: dict[str, int] = {}
    names = {split(edge)[0]: name for name, edge in model.inputs.items()}
    for node in model.graph.node:
        if node.op not in ("GatherV2", "Gather", "ResourceGather"):
            continue
        table, source = constant(view.source(node, 0)), view.source(node, 1)
        while source is not None and source.name not in names and len(source.input) >= 1:
            source = view.source(source, 0)
        if table is not None and source is not None and source.name in names:
            name = names[source.name]
            rows[name] = min(rows.get(name, len(table)), len(table))
    return rows


def compare(before: Model, after: Model, batch: int = BATCH) -> Comparison:
    """Both graphs on the same inputs: alternately timed, and their answers compared."""
    tensors = make_inputs(before, batch)
    functions = [make_callable(model) for model in (before, after)]
    answers = [[result.numpy() for result in function(*tensors)] for function in functions]
    errors = {
        name: relative_error(one, other)
        for name, one, other in zip(before.outputs, *answers, strict=True)
    }
    allowed = [TOLERANCES.get(one.dtype.name, TOLERANCE_OTHER) for one in answers[0]]
    equal = all(error <= most for error, most in zip(errors.values(), allowed, strict=True))
    peaks = [measure_peak(model, batch) for model in (before, after)]
    samples = time_alternately(functions, tensors)
    return Comparison(
        errors,
        equal,
        ratio_of(samples[:, 0], samples[:, 1]),
        float(np.median(samples[:, 0])) * 1e6,
        float(np.median(samples[:, 1])) * 1e6,
        *peaks,
    )


def relative_error(expected: NDArray[Any], got: NDArray[Any]) -> float:
    """The largest difference, of the largest value that is expected; infinite for other shapes."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return float("inf")
    if expected.size == 0 or np.array_equal(expected, got):
        return 0.0
    if expected.dtype.kind not in "fV":
        return float("inf")
    a, b = expected.astype(np.float64), got.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(a)
    scale = float(np.abs(a[finite]).max(initial=0.0))
    difference = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return difference / scale if scale else difference


def time_alternately(
    functions: Sequence[Any], tensors: Sequence[Any], rounds: int = ROUNDS, pause_s: float = 0.0
) -> NDArray[np.float64]:
    """Seconds of a call, [rounds, functions]: each round times every one, in changing order.

    With a pause before each, that what the one before left running has ended, and one call more,
    which is not timed, to wake the function's own threads.
    """
    generator = np.random.default_rng(SEED)
    calls = []
    for function in functions:
        function(*tensors)
        start = time.perf_counter()
        function(*tensors)
        calls.append(max(1, int(CALL_S_MIN / max(time.perf_counter() - start, 1e-6))))
    samples = np.empty((rounds, len(functions)))
    for row in samples:
        for index in generator.permutation(len(functions)):
            if pause_s:
                time.sleep(pause_s)
                functions[index](*tensors)
            start = time.perf_counter()
            for _ in range(calls[index]):
                functions[index](*tensors)
            row[index] = (time.perf_counter() - start) / calls[index]
    return samples


def measure_peak(model: Model, batch: int, *, unfused: bool = False) -> int:
    """Bytes that a call takes at most beyond what is resident before it (see graph_peak).

    `unfused` switches TensorFlow's own optimisation off, which fuses too.
    """
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.pb"
        graph.write_bytes(model.graph.SerializeToString())
        command = [sys.executable, "-m", "ascend_ops.graph_peak", str(graph), f"--batch={batch}"]
        command += ["--inputs", *model.inputs.values(), "--outputs", *model.outputs.values()]
        command += ["--unfused"] if unfused else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return int(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise AscendOpsError(f"cannot measure the memory of a call: {reason[0]}") from error
