"""`python -m ascend_ops.onnx_benchmark`: three models, before and after, in ONNX Runtime.

Three arms: the original with every optimisation off, the original with ONNX Runtime's own at its
highest level, and the optimised model; with --tune, that with the fusions that are found to pay
here. They run alternately on the same inputs, so that a busy machine slows all of them; the table
has the paired ratio with its 95 % interval. The peak of memory is that of a run at 16 times the
batch, in a process of its own for each arm, beyond what the session holds.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ascend_ops.memory import measure_memory
from ascend_ops.onnx_fusion import KINDS
from ascend_ops.onnx_models import BATCH, MODELS, make_feeds
from ascend_ops.onnx_optimizer import optimize
from ascend_ops.onnx_runtime import compare, make_session, session_options
from ascend_ops.onnx_tuning import choose, time_alternately
from ascend_ops.paired import Ratio, ratio_of

ARMS: Final = ("original", "onnxruntime", "optimized")
# Peaks are measured at a larger batch: what lies between two nodes must stand out from the rest.
PEAK_BATCHES: Final = 16


@dataclass(frozen=True)
class ModelResult:
    """One model: nodes, median times in µs, ratios, peaks of memory in bytes, difference."""

    model: str
    nodes_before: int
    nodes_after: int
    fused: int
    median_us: dict[str, float]
    against_original: Ratio
    against_onnxruntime: Ratio
    peak_bytes: dict[str, int]
    difference: float


def make_options(arm: str, threads: int) -> onnxruntime.SessionOptions:
    """The settings of an arm; `threads` are those of ONNX Runtime's own pool."""
    levels = onnxruntime.GraphOptimizationLevel
    options = session_options() if arm == "optimized" else onnxruntime.SessionOptions()
    everything_off = arm == "original"
    options.graph_optimization_level = (
        levels.ORT_DISABLE_ALL if everything_off else levels.ORT_ENABLE_ALL
    )
    options.intra_op_num_threads = threads
    # Memory is taken from the system and given back, so that the peak is what the run needs.
    options.enable_cpu_mem_arena = False
    return options


def measure_peak(arm: str, name: str, batch: int, threads: int, kinds: tuple[str, ...]) -> int:
    """The most that a run takes beyond what the session holds; for a process of its own."""
    model = MODELS[name]()
    feeds = make_feeds(model, batch)
    if arm == "optimized":
        model = optimize(model, kinds=kinds)[0]
    session = make_session(model, make_options(arm, threads))
    session.run(None, {key: value[:1] for key, value in feeds.items()})
    return measure_memory(session.run, None, feeds).peak_increase_bytes


def _peak_in_a_process(
    arm: str, name: str, batch: int, threads: int, kinds: tuple[str, ...]
) -> int:
    call = [sys.executable, "-m", "ascend_ops.onnx_benchmark", "--peak", arm, "--models", name]
    call += ["--batch", str(batch), "--threads", str(threads), "--kinds", *kinds]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    return int(done.stdout)


def measure(name: str, batch: int, pairs: int, threads: int, tune: bool = False) -> ModelResult:
    """Times and peaks of one model; ValueError when the optimised one gives something else."""
    original = MODELS[name]()
    optimized, report = optimize(original)
    feeds: dict[str, NDArray[Any]] = make_feeds(original, batch)
    kinds = KINDS
    if tune:
        choice = choose(original, feeds, partial(make_options, "optimized", threads))
        optimized, report, kinds = choice.model, choice.report, choice.kinds
    difference = max(part.relative for part in compare(original, optimized, feeds))
    models = {arm: optimized if arm == "optimized" else original for arm in ARMS}
    sessions = {arm: make_session(models[arm], make_options(arm, threads)) for arm in ARMS}
    runs = {arm: partial(session.run, None, feeds) for arm, session in sessions.items()}
    times = time_alternately(runs, pairs)
    return ModelResult(
        name,
        report.nodes_before,
        report.nodes_after,
        len(report.fusions),
        {arm: float(np.median(times[arm])) * 1e6 for arm in ARMS},
        ratio_of(times["original"], times["optimized"]),
        ratio_of(times["onnxruntime"], times["optimized"]),
        {arm: _peak_in_a_process(arm, name, batch * PEAK_BATCHES, threads, kinds) for arm in ARMS},
        difference,
    )


def format_table(results: list[ModelResult]) -> str:
    """The results as lines of text."""
    lines = [
        (
            f"{'model':10} {'nodes':>8} {'fused':>5} {'original µs':>12} {'ORT all µs':>11} "
            f"{'fused µs':>9} {'÷ original':>20} {'÷ ORT all':>20} {'peak MB (3 arms)':>20} "
            f"{'peak':>6} {'difference':>10}"
        )
    ]
    for result in results:
        times = [result.median_us[arm] for arm in ARMS]
        peaks = [result.peak_bytes[arm] / 1e6 for arm in ARMS]
        ratios = [str(result.against_original), str(result.against_onnxruntime)]
        change = (peaks[2] / peaks[0] - 1) * 100 if peaks[0] else 0.0
        lines.append(
            f"{result.model:10} {result.nodes_before:3d} → {result.nodes_after:2d} "
            f"{result.fused:5d} {times[0]:12.0f} {times[1]:11.0f} {times[2]:9.0f} "
            f"{ratios[0]:>20} {ratios[1]:>20} {' '.join(f'{p:6.1f}' for p in peaks):>20} "
            f"{change:5.0f}% {result.difference:10.1e}"
        )
    return "\n".join(lines)


def main() -> int:
    """Prints the table; writes it as JSON where --output says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--pairs", type=int, default=100, help="runs of each arm")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune", action="store_true", help="only fusions that pay here")
    parser.add_argument("--output", type=Path, help="a JSON file")
    parser.add_argument("--peak", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.peak:
        print(measure_peak(a.peak, a.models[0], a.batch, a.threads, tuple(a.kinds)))
        return 0
    results = [measure(name, a.batch, a.pairs, a.threads, a.tune) for name in a.models]
    print(f"ONNX Runtime {onnxruntime.__version__}, {a.threads} threads, batch {a.batch}")
    print(format_table(results))
    if a.output:
        a.output.write_text(json.dumps([asdict(r) for r in results], indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
