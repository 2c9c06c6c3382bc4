"""The last stage of the pipeline: from scores to detections.

A model may decide by itself (an output `anomaly` beside `score`). With a threshold given by the
operator its decision is replaced, so that sensitivity can be changed without a new model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCORE = "score"
FLAG = "anomaly"


@dataclass(frozen=True)
class Detector:
    """Applies `threshold` (None: the model's own decision stands)."""

    threshold: float | None = None

    def detect(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs with `anomaly` set to score ≥ threshold, elementwise, where that applies."""
        detected = dict(outputs)
        if self.threshold is not None and SCORE in outputs:
            detected[FLAG] = np.asarray(outputs[SCORE] >= self.threshold)
        return detected


def count_anomalies(outputs: Mapping[str, NDArray[Any]]) -> int:
    """How many instances were flagged; 0 for a model without that output."""
    flags = outputs.get(FLAG)
    return 0 if flags is None or flags.dtype != np.bool_ else int(np.count_nonzero(flags))
