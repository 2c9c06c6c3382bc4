"""A TensorFlow model frozen, simplified and fused, on behalf of `ascend_ops.graph`.

Both models are run on the same inputs first: nothing is written when their answers differ, and what
is fused is kept only where it is not slower.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ascend_ops.errors import AscendOpsError, InvalidInputError
from ascend_ops.graph_compare import Comparison, compare
from ascend_ops.graph_load import load_model, save_model
from ascend_ops.graph_optimize import Optimised, format_report, optimise
from ascend_ops.tool import Answer

NOT_SLOWER: Final = 0.97  # of the speedup's interval: below it the fused graph is slower


class DifferentAnswersError(AscendOpsError):
    """The optimised model answers otherwise than the original."""


def run(a: argparse.Namespace) -> Answer:
    """Loads, optimises, compares and writes."""
    _check_target(a.model, a.to)
    model = load_model(a.model, a.signature or "", a.inputs, a.outputs)
    done = optimise(model, custom_ops=not a.without_custom_ops, nhwc=a.layout == "nhwc")
    lines = [format_report(done)]
    comparison, kept = None, done
    if not a.no_compare:
        comparison, kept, note = _choose(a, model, done)
        lines += [format_comparison(comparison), *note]
    data: dict[str, Any] = {
        "fused": [asdict(one) for one in kept.fused],
        "folded": kept.folded,
        "nodes_before": kept.nodes_before,
        "nodes_after": kept.nodes_after,
        "comparison": None if comparison is None else asdict(comparison),
    }
    if a.dry_run or a.to is None:
        return Answer("compared", "\n".join([*lines, "nothing written"]), data)
    save_model(kept.model, a.to)
    lines.append(f"wrote {a.to}{_how_to_load(kept)}")
    return Answer("optimised", "\n".join(lines), {**data, "written": str(a.to)})


def _choose(
    a: argparse.Namespace, model: Any, done: Optimised
) -> tuple[Comparison, Optimised, list[str]]:
    """The comparison, and what to keep: without its fused ops where these turn out slower."""
    comparison = compare(model, done.model, a.batch)
    _require_equal(comparison)
    if not done.fused or comparison.ratio.high >= NOT_SLOWER:
        return comparison, done, []
    plain = optimise(model, custom_ops=False, nhwc=a.layout == "nhwc")
    second = compare(model, plain.model, a.batch)
    _require_equal(second)
    note = (
        f"the fused ops were slower here ({comparison.ratio.speedup:.2f}×) and were left out: "
        f"{second.ratio.speedup:.2f}× without them"
    )
    return second, plain, [note]


def _require_equal(comparison: Comparison) -> None:
    if comparison.equal:
        return
    worst = max(comparison.outputs, key=lambda name: comparison.outputs[name])
    raise DifferentAnswersError(
        f"the optimised model answers otherwise: output {worst} differs by "
        f"{comparison.outputs[worst]:.2e} of its largest value. Nothing was written. A model that "
        "draws random numbers, or keeps state, cannot be compared: --no-compare"
    )


def format_comparison(comparison: Comparison) -> str:
    """Lines for people."""
    ratio = comparison.ratio
    error = max(comparison.outputs.values(), default=0.0)
    return (
        f"time {comparison.before_us:.0f} → {comparison.after_us:.0f} µs a call: "
        f"{ratio.speedup:.2f}× (95 %: {ratio.low:.2f}–{ratio.high:.2f}), TensorFlow's own "
        f"optimisation on in both\n"
        f"peak memory of a call {comparison.before_peak_bytes / 1e6:.1f} → "
        f"{comparison.after_peak_bytes / 1e6:.1f} MB · answers equal within {error:.1e}"
    )


def _how_to_load(kept: Optimised) -> str:
    if not kept.fused:
        return ""
    return "; import ascend_ops.tensorflow before it is loaded"


def _check_target(model: Path, to: Path | None) -> None:
    if to is None:
        return
    if to.resolve() == model.resolve():
        raise InvalidInputError(f"--to {to} is the model itself; write to another place")
    if to.exists() and (to.is_file() or any(to.iterdir())):
        raise InvalidInputError(f"--to {to} is there already; nothing is overwritten")
    if not to.parent.is_dir():
        raise InvalidInputError(f"--to: there is no folder {to.parent}; make it first")


def act(a: argparse.Namespace) -> Answer:
    """One model, with options that mean something."""
    if a.batch < 1:
        raise InvalidInputError("--batch is at least 1")
    return run(a)
