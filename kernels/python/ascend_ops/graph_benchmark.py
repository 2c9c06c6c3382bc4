"""`python -m ascend_ops.graph_benchmark`: optimised graphs of three models against the originals.

An MLP, a CNN and an embedding with dense layers, each run as it was exported (with TensorFlow's own
optimisation off, and on: grappler) and as `opsctl model optimize` writes it. All arms alternate in
one process; the order changes from round to round.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ascend_ops.graph_compare import (
    make_inputs,
    measure_peak,
    relative_error,
    time_alternately,
)
from ascend_ops.graph_load import load_model
from ascend_ops.graph_optimize import optimise
from ascend_ops.graph_view import Model, make_callable
from ascend_ops.paired import Ratio, ratio_of

OFF: Final = {"disable_meta_optimizer": True}
ON: Final = {"disable_meta_optimizer": False}
BATCHES: Final = {"mlp": 256, "cnn": 8, "embedding": 256}


def build_mlp() -> Any:
    """Three dense layers of 1024."""
    layers = [keras.layers.Dense(1024, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((1024,)), *layers, keras.layers.Dense(16)])


def build_cnn() -> Any:
    """Four convolutions of 64 channels on images of 56 × 56, and a dense layer."""
    convolutions = [keras.layers.Conv2D(64, 3, padding="same", activation="relu") for _ in range(4)]
    end = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10, activation="sigmoid")]
    return keras.Sequential([keras.Input((56, 56, 64)), *convolutions, *end])


def build_embedding() -> Any:
    """A table of 5000 × 64, 32 words a row, and two dense layers."""
    words = keras.Input((32,), dtype="int32")
    flat = keras.layers.Flatten()(keras.layers.Embedding(5000, 64)(words))
    hidden = keras.layers.Dense(1024, activation="relu")(flat)
    return keras.Model(words, keras.layers.Dense(8, activation="sigmoid")(hidden))


MODELS: Final[dict[str, Callable[[], Any]]] = {
    "mlp": build_mlp,
    "cnn": build_cnn,
    "embedding": build_embedding,
}


@dataclass(frozen=True)
class Row:
    """One model: times in µs, ratios against both originals, memory of a call in bytes."""

    model: str
    fused: int
    original_us: float
    grappler_us: float
    optimised_us: float
    against_original: Ratio
    against_grappler: Ratio
    original_peak_bytes: int
    optimised_peak_bytes: int
    relative_error: float


class Arm:
    """A function that runs with TensorFlow's optimisation on or off."""

    def __init__(self, model: Model, options: dict[str, bool]) -> None:
        self._function = make_callable(model)
        self._options = options

    def __call__(self, *tensors: Any) -> Any:
        """Sets the option, which is the process's, when it is another's; then runs."""
        if (
            tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)
            != self._options["disable_meta_optimizer"]
        ):
            tf.config.optimizer.set_experimental_options(self._options)
        return self._function(*tensors)


def measure(name: str, folder: Path, rounds: int, batch: int | None = None) -> Row:
    """Exports one model, optimises it, and times all arms."""
    keras.utils.set_random_seed(42)
    path = folder / name
    MODELS[name]().export(str(path), verbose=False)
    model = load_model(path)
    done = optimise(model)
    size = batch or BATCHES[name]
    tensors = make_inputs(model, size)
    arms = [Arm(model, OFF), Arm(model, ON), Arm(done.model, ON)]
    answers = [arm(*tensors)[0].numpy() for arm in arms]
    peaks = [measure_peak(model, size, unfused=True), measure_peak(done.model, size)]
    samples = time_alternately(arms, tensors, rounds)
    return _row(name, len(done.fused), samples, peaks, relative_error(answers[0], answers[2]))


def _row(
    name: str, fused: int, samples: NDArray[np.float64], peaks: list[int], error: float
) -> Row:
    medians = np.median(samples, axis=0) * 1e6
    return Row(
        model=name,
        fused=fused,
        original_us=float(medians[0]),
        grappler_us=float(medians[1]),
        optimised_us=float(medians[2]),
        against_original=ratio_of(samples[:, 0], samples[:, 2]),
        against_grappler=ratio_of(samples[:, 1], samples[:, 2]),
        original_peak_bytes=peaks[0],
        optimised_peak_bytes=peaks[1],
        relative_error=error,
    )


def format_rows(rows: list[Row]) -> str:
    """The table for people."""
    lines = [
        (
            f"{'model':10} {'fused':>5} {'original µs':>12} {'grappler µs':>12} "
            f"{'optimised µs':>13} {'× original':>20} {'× grappler':>20} {'peak MB':>16} "
            f"{'saved':>6} {'error':>8}"
        )
    ]
    for row in rows:
        saved = 1 - row.optimised_peak_bytes / max(1, row.original_peak_bytes)
        lines.append(
            f"{row.model:10} {row.fused:5d} {row.original_us:12.0f} {row.grappler_us:12.0f} "
            f"{row.optimised_us:13.0f} {row.against_original!s:>20} "
            f"{row.against_grappler!s:>20} {row.original_peak_bytes / 1e6:7.1f} → "
            f"{row.optimised_peak_bytes / 1e6:6.1f} {100 * saved:5.0f}% {row.relative_error:8.1e}"
        )
    return "\n".join(lines)


def main() -> int:
    """Prints the table; --json the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder), a.rounds, a.batch) for name in a.models]
    print(json.dumps([asdict(row) for row in rows]) if a.json else format_rows(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
