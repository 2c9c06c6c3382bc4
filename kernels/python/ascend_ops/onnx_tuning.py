"""Which fusions pay on this machine: measured, on the model and the inputs that are given.

On NPUs each fusion saves a pass over memory. On a CPU, ONNX Runtime has fast kernels of its own for
some of the groups, and what is faster depends on sizes, instruction set and threads.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final

import numpy as np
import onnxruntime
from onnx import ModelProto

from ascend_ops.onnx_fusion import KINDS
from ascend_ops.onnx_optimizer import OptimizationReport, optimize
from ascend_ops.onnx_runtime import Feeds, make_session

WARM_UP: Final = 5


@dataclass(frozen=True)
class Choice:
    """The fastest form: its model and report, and the kinds that it fuses; all median times, µs."""

    model: ModelProto
    report: OptimizationReport
    kinds: tuple[str, ...]
    median_us: dict[tuple[str, ...], float]


def time_alternately(runs: Mapping[Any, Callable[[], Any]], pairs: int) -> dict[Any, list[float]]:
    """Seconds of each run, `pairs` times; they take turns, so that a busy machine slows all."""
    times: dict[Any, list[float]] = {arm: [] for arm in runs}
    for pair in range(WARM_UP + pairs):
        # The order turns round, so that no arm always comes after the same one.
        for arm in list(runs)[:: 1 if pair % 2 else -1]:
            start = time.perf_counter()
            runs[arm]()
            if pair >= WARM_UP:
                times[arm].append(time.perf_counter() - start)
    return times


def choose(
    model: ModelProto,
    feeds: Feeds,
    make_options: Callable[[], onnxruntime.SessionOptions] | None = None,
    pairs: int = 30,
) -> Choice:
    """Optimises with each set of the kinds of fusions that the model has, and keeps the fastest.

    No fusion at all is one of the sets. `make_options` makes a session's options, with the custom
    operators registered; by default those of `ascend_ops.onnx_runtime.session_options`.
    """
    made = {fusion.fused for fusion in optimize(model)[1].fusions}
    sets = [
        kinds
        for size in range(len(made) + 1)
        for kinds in combinations([kind for kind in KINDS if kind in made], size)
    ]
    forms = {kinds: optimize(model, kinds=kinds) for kinds in sets}
    runs = {
        kinds: partial(make_session(form, make_options and make_options()).run, None, feeds)
        for kinds, (form, _) in forms.items()
    }
    times = time_alternately(runs, pairs)
    median_us = {kinds: float(np.median(times[kinds])) * 1e6 for kinds in sets}
    best = min(sets, key=median_us.__getitem__)
    return Choice(*forms[best], best, median_us)
