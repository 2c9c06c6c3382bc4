"""`python -m ascend_serving.train --out DIR`: makes the sample model and the data to try it with.

    DIR/<version>/       the SavedModel (signature serving_default: window → score, anomaly)
    DIR/model.json       seed, data, metrics, hash
    DIR/requests.jsonl   real windows of the test split, one `instances` item a line
    DIR/expected.json    a few windows with the scores that a right model gives

Two variants are for trying out a deployment's gates: `slow` does more computation for the same
answers, `wrong` has damaged weights, which turn each confident answer into its opposite. Their
expected.json is that of the right model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascend_serving.artifact import hash_artifact
from ascend_serving.errors import OpLibraryError, StartError, UsageError
from ascend_serving.native_stderr import mute_native_stderr
from ascend_serving.sensor_data import CHANNELS, FAULTS, NORMAL, STEPS, Windows, generate

if TYPE_CHECKING:
    from ascend_serving.network import AnomalyModel, Weights

VARIANTS = ("normal", "slow", "wrong")
# Seeds of the splits, so that none shares a window with another.
_SPLITS = {"train": (0, 6000), "validation": (1, 2000), "test": (2, 2000)}
_REQUESTS = 512  # lines of requests.jsonl
_SEEDS_APART = 1000
_TOLERANCE = 1e-4  # of a score: other CPUs and batch sizes round differently, by about 1e-6
# Scores to show for faults and for normal windows: far from saturation, where a damaged model
# differs most, and far from the threshold, so that flags are sure.
_SHOWN_SCORE = {True: 0.9, False: 0.1}
# Measured on two cores, one client: +35 to +51 % latency at batch sizes 1, 4, 16 and 32 (see
# tests/test_variants.py).
_EXTRA_PASSES = 2


@dataclass(frozen=True)
class TrainOptions:
    """What to make."""

    out: Path
    seed: int
    version: int
    variant: str
    custom_op: bool


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; a summary goes to stdout as JSON."""
    options = _read_options(argv)
    # Fatal only: the graph optimiser calls attributes that it does not know an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        summary = make_model(options)
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(summary, indent=2))
    return 0


def make_model(options: TrainOptions) -> dict[str, Any]:
    """Trains, exports and writes everything; what stands in model.json. Raises `StartError`."""
    folder = _make_folder(options)
    # TensorFlow's import takes seconds: not before the options are known to be right.
    with mute_native_stderr():
        import tensorflow as tf

        from ascend_serving import network

    activation = _find_activation(options)
    splits = {
        name: generate(options.seed * _SEEDS_APART + offset, count)
        for name, (offset, count) in _SPLITS.items()
    }
    weights = network.train_weights(splits["train"], options.seed)
    right = network.AnomalyModel(weights, 0.5, activation)
    threshold = _choose_threshold(network.predict(right, splits["validation"].values)[0], splits)
    right = network.AnomalyModel(weights, threshold, activation)
    served = _apply_variant(options, weights, threshold, right)
    tf.saved_model.save(served, str(folder), signatures={"serving_default": served.serve})
    test = splits["test"]
    scores, flags = network.predict(served, test.values)
    summary = {
        "name": "anomaly",
        "version": options.version,
        "variant": options.variant,
        "hash": hash_artifact(folder),
        "seed": options.seed,
        "custom_op": "AscendSigmoid" if options.custom_op else None,
        "tensorflow": tf.__version__,
        "parameters": weights.count,
        "threshold": threshold,
        "data": _describe_data(),
        "metrics": _measure(scores, flags, test),
    }
    _write_json(options.out / "model.json", summary)
    _write_requests(options.out / "requests.jsonl", test)
    _write_expected(
        options.out / "expected.json", test, network.predict(right, test.values)[0], threshold
    )
    return summary


def _find_activation(options: TrainOptions) -> Any:
    from ascend_serving import network

    try:
        return network.choose_activation(options.custom_op)
    except Exception as error:  # ascend_ops has its own tree, which can't be imported without it
        raise OpLibraryError(
            "cannot build the model's output layer",
            f"ascend_ops does not load ({error})",
            "Install it (pip install --no-build-isolation ./kernels), or add --no-custom-op.",
        ) from error


def _apply_variant(
    options: TrainOptions, weights: Weights, threshold: float, right: AnomalyModel
) -> AnomalyModel:
    from ascend_serving import network

    activation = network.choose_activation(options.custom_op)
    if options.variant == "slow":
        return network.AnomalyModel(weights, threshold, activation, _EXTRA_PASSES)
    if options.variant == "wrong":
        return network.AnomalyModel(network.turn_output(weights), threshold, activation)
    return right


def _make_folder(options: TrainOptions) -> Path:
    folder = options.out / str(options.version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}", error.strerror or str(error), "Choose another --out."
        ) from error
    return folder


def _choose_threshold(scores: NDArray[np.float32], splits: dict[str, Windows]) -> float:
    """The score with the best F1 on the validation split, in steps of 0.01."""
    labels = splits["validation"].labels
    candidates = np.arange(5, 96) / 100
    best = max(candidates, key=lambda value: _f1(scores >= value, labels))
    return float(best)


def _f1(flags: NDArray[np.bool_], labels: NDArray[np.bool_]) -> float:
    hits = int(np.sum(flags & labels))
    return 2 * hits / max(1, int(flags.sum()) + int(labels.sum()))


def _measure(
    scores: NDArray[np.float32], flags: NDArray[np.bool_], test: Windows
) -> dict[str, Any]:
    labels = test.labels
    hits = int(np.sum(flags & labels))
    kinds = np.array(test.kinds)
    return {
        "auc": round(_auc(scores, labels), 4),
        "f1": round(_f1(flags, labels), 4),
        "precision": round(hits / max(1, int(flags.sum())), 4),
        "recall": round(hits / max(1, int(labels.sum())), 4),
        "recall_by_kind": {kind: round(float(flags[kinds == kind].mean()), 4) for kind in FAULTS},
    }


def _auc(scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> float:
    """Area under the ROC curve, as the Mann–Whitney statistic over ranks (ties are negligible)."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positive, negative = int(labels.sum()), int((~labels).sum())
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _describe_data() -> dict[str, Any]:
    return {
        "steps": STEPS,
        "channels": list(CHANNELS),
        "kinds": [NORMAL, *FAULTS],
        "windows": {name: count for name, (_, count) in _SPLITS.items()},
    }


def _write_requests(path: Path, test: Windows) -> None:
    lines = (json.dumps(_to_list(window)) for window in test.values[:_REQUESTS])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_expected(
    path: Path, test: Windows, scores: NDArray[np.float32], threshold: float
) -> None:
    """One window of each kind, each flagged rightly by the right model."""
    kinds = np.array(test.kinds)
    right = (scores >= threshold) == test.labels
    windows = []
    for kind in (NORMAL, *FAULTS):
        indexes = np.flatnonzero((kinds == kind) & right)
        shown = _SHOWN_SCORE[kind != NORMAL]
        index = indexes[np.argmin(np.abs(scores[indexes] - shown))]
        windows.append(
            {
                "kind": kind,
                "instance": _to_list(test.values[index]),
                "score": float(scores[index]),
                "anomaly": bool(test.labels[index]),
            }
        )
    _write_json(path, {"tolerance": _TOLERANCE, "windows": windows})


def _to_list(window: NDArray[np.float32]) -> list[list[float]]:
    return [[round(float(value), 4) for value in step] for step in window]


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _read_options(argv: Sequence[str] | None) -> TrainOptions:
    parser = argparse.ArgumentParser(
        prog="python -m ascend_serving.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--model-version", type=int, default=1, help="number of the version folder")
    parser.add_argument("--variant", choices=VARIANTS, default="normal")
    parser.add_argument("--no-custom-op", action="store_true", help="end with TensorFlow's sigmoid")
    given = parser.parse_args(argv)
    if given.model_version < 1:
        parser.error("--model-version counts from 1")
    return TrainOptions(
        given.out, given.seed, given.model_version, given.variant, not given.no_custom_op
    )


if __name__ == "__main__":
    sys.exit(main())
