"""`python -m ascend_ops.graph_benchmark`: optimised graphs of three models against the originals.

An MLP, a CNN and an embedding with dense layers, each run as it was exported (with TensorFlow's own
optimisation off, and on: grappler), as an ONNX model with the same weights in ONNX Runtime (its own
optimisation at the highest level, as many threads), and as `opsctl model optimize` writes it. All
arms alternate in one process; the order changes from round to round. The last ratio is against the
faster of grappler and ONNX Runtime. Nodes, fused groups and peaks of memory are counted; that of
ONNX Runtime is without its arena.
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
from ascend_ops.graph_onnx import OnnxArm, export
from ascend_ops.graph_onnx import measure_peak as measure_onnx_peak
from ascend_ops.graph_optimize import optimise
from ascend_ops.graph_view import Model, make_callable
from ascend_ops.paired import Ratio, ratio_of

OFF: Final = {"disable_meta_optimizer": True}
ON: Final = {"disable_meta_optimizer": False}
BATCHES: Final = {"mlp": 256, "cnn": 8, "embedding": 256}
ARMS: Final = ("original", "grappler", "onnxruntime", "optimised")
# Threads of one arm's pool spin for a while after its call, and must not slow the next arm.
PAUSE_S: Final = 0.02
SAVING_MIN: Final = 0.45  # the field's figure for the memory that fusion saves


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
    """One model: nodes and median times in µs of each arm, ratios, memory of a call in bytes.

    `against_better` is the ratio against the faster of grappler and ONNX Runtime, and
    `relative_error` the largest difference of ONNX Runtime's or the optimised answers.
    """

    model: str
    fused: int
    nodes: dict[str, int]
    median_us: dict[str, float]
    against_original: Ratio
    against_grappler: Ratio
    against_onnxruntime: Ratio
    against_better: Ratio
    peak_bytes: dict[str, int]
    relative_error: float

    @property
    def saving(self) -> float:
        """The part of the unfused graph's memory that the optimised one does without."""
        return 1 - self.peak_bytes["optimised"] / max(1, self.peak_bytes["original"])


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
    network = MODELS[name]()
    network.export(str(path), verbose=False)
    model, onnx_model = load_model(path), export(network)
    done = optimise(model)
    size = batch or BATCHES[name]
    (tensor,) = make_inputs(model, size)
    onnx_arm = OnnxArm(onnx_model, len(os.sched_getaffinity(0)), tensor.numpy())
    arms: list[Callable[..., Any]] = [
        Arm(model, OFF),
        Arm(model, ON),
        onnx_arm,
        Arm(done.model, ON),
    ]
    answers = [np.asarray(arm(tensor)[0]) for arm in arms]
    peaks = [
        measure_peak(model, size, unfused=True),
        measure_peak(model, size),
        measure_onnx_peak(onnx_model, size),
        measure_peak(done.model, size),
    ]
    samples = time_alternately(arms, [tensor], rounds, PAUSE_S)
    unfused = len(model.graph.node)
    counts = (unfused, unfused, onnx_arm.nodes, len(done.model.graph.node))
    nodes = dict(zip(ARMS, counts, strict=True))
    error = max(relative_error(answers[0], answer) for answer in answers[1:])
    taken = dict(zip(ARMS, peaks, strict=True))
    return _row(name, len(done.fused), (nodes, taken), samples, error)


def _row(
    name: str, fused: int, counts: tuple[dict[str, int], dict[str, int]],
    samples: NDArray[np.float64], error: float,
) -> Row:  # fmt: skip
    nodes, peaks = counts
    medians = dict(zip(ARMS, np.median(samples, axis=0) * 1e6, strict=True))
    ratios = [ratio_of(samples[:, arm], samples[:, -1]) for arm in range(3)]
    better = 1 if medians["grappler"] <= medians["onnxruntime"] else 2
    return Row(
        model=name,
        fused=fused,
        nodes=nodes,
        median_us={arm: float(time) for arm, time in medians.items()},
        against_original=ratios[0],
        against_grappler=ratios[1],
        against_onnxruntime=ratios[2],
        against_better=ratios[better],
        peak_bytes=peaks,
        relative_error=error,
    )


def format_rows(rows: list[Row]) -> str:
    """The table for people: two lines a model, its verdicts at the end of them."""
    lines = [
        (
            f"{'model':10} {'nodes':>9} {'fused':>5} "
            + " ".join(f"{arm + ' µs':>14}" for arm in ARMS)
            + f" {'× grappler':>18} {'× ORT':>18} {'× better':>18} {'bar 1.0×':>8} {'error':>8}"
        )
    ]
    for row in rows:
        ratios = (row.against_grappler, row.against_onnxruntime, row.against_better)
        lines.append(
            f"{row.model:10} {row.nodes['original']:3d} → {row.nodes['optimised']:3d} "
            f"{row.fused:5d} "
            + " ".join(f"{row.median_us[arm]:14.0f}" for arm in ARMS)
            + "".join(f" {ratio!s:>18}" for ratio in ratios)
            + f" {row.against_better.judge():>8} {row.relative_error:8.1e}"
        )
        verdict = "reached" if row.saving >= SAVING_MIN else "missed"
        lines.append(
            f"{'peak MB':>26} "
            + " ".join(f"{row.peak_bytes[arm] / 1e6:14.1f}" for arm in ARMS)
            + f" against the original {-100 * row.saving:+.0f}% (bar −45%: {verdict}), "
            f"{row.against_original} in time; nodes in ONNX Runtime {row.nodes['onnxruntime']}"
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
