"""An ONNX model with fewer nodes, on behalf of `ascend_ops.onnx_model`.

Both models are run in ONNX Runtime on the same
inputs first: nothing is written when their answers differ, and of the fusions only those are kept
that pay on this machine. For ATC all are kept, as it is another machine that they must pay on.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnxruntime
from google.protobuf.message import EncodeError
from onnx import ModelProto, TensorProto

from ascend_ops.errors import AscendOpsError, InvalidInputError
from ascend_ops.onnx_atc import ATC_RANK, for_atc
from ascend_ops.onnx_feeds import make_feeds
from ascend_ops.onnx_fusion import KINDS, RANK_MAX
from ascend_ops.onnx_optimizer import (
    OptimizationReport,
    format_report,
    optimize,
    read_model,
    write_model,
)
from ascend_ops.onnx_runtime import (
    ORT_ERRORS,
    Comparison,
    Feeds,
    compare,
    make_session,
    session_options,
)
from ascend_ops.onnx_tuning import choose, time_alternately
from ascend_ops.paired import Ratio, ratio_of
from ascend_ops.tolerances import TOLERANCE_OTHER, TOLERANCES
from ascend_ops.tool import Answer

PAIRS: Final = (7, 50)  # runs of each form that are timed: the least, and the most
TIMED_S: Final = 5.0  # for all runs of one form, where the least allow it
ONNX_TYPES: Final = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}


class DifferentOnnxAnswersError(AscendOpsError):
    """The optimised model answers otherwise than the original."""


@dataclass(frozen=True)
class Measured:
    """Answers of both models, and the time of the original over that of the optimised one."""

    outputs: tuple[Comparison, ...]
    ratio: Ratio | None


def run(a: argparse.Namespace) -> Answer:
    """Reads, optimises, compares and writes."""
    _check_target(a.model, a.to)
    model = read_model(a.model)
    kinds = () if a.without_custom_ops else KINDS
    done, report = optimize(model, ATC_RANK if a.for_atc else RANK_MAX, kinds)
    notes: list[str] = []
    measured = None
    if not a.no_compare:
        feeds = make_feeds(model, a.batch)
        if report.fusions and not a.for_atc:
            done, report, notes = _keep_what_pays(model, feeds, report)
        measured = _measure(model, done, feeds, timed=not a.for_atc)
    lines = [format_report(report), *notes, *_format(measured)]
    data: dict[str, Any] = {
        **report.as_dict(),
        "comparison": None if measured is None else asdict(measured),
    }
    if a.dry_run or a.to is None:
        return Answer("compared", "\n".join([*lines, "nothing written"]), data)
    write_model(_bytes(for_atc(done) if a.for_atc else done), a.to)
    return Answer("optimised", "\n".join([*lines, f"wrote {a.to}"]), {**data, "written": str(a.to)})


def _keep_what_pays(
    model: ModelProto, feeds: Feeds, full: OptimizationReport
) -> tuple[ModelProto, OptimizationReport, list[str]]:
    """The fastest form of the model here, its report, and what was left out for it."""
    choice = _run_in_ort(lambda: choose(model, feeds, pairs=_affordable_pairs(model, feeds)))
    left_out = sorted({one.fused for one in full.fusions} - set(choice.kinds))
    notes = [
        f"{name} is slower here than ONNX Runtime's own, and was left out" for name in left_out
    ]
    return choice.model, choice.report, notes


def _affordable_pairs(model: ModelProto, feeds: Feeds) -> int:
    """How many runs of a model there is time for."""
    session = make_session(model, onnxruntime.SessionOptions())
    session.run(None, feeds)
    start = time.perf_counter()
    session.run(None, feeds)
    seconds = max(time.perf_counter() - start, 1e-6)
    return max(PAIRS[0], min(PAIRS[1], int(TIMED_S / seconds)))


def _measure(model: ModelProto, done: ModelProto, feeds: Feeds, *, timed: bool) -> Measured:
    """Compares answers, and times against the original with ONNX Runtime's own optimisation."""
    fused = any(node.domain == "ascend_ops" for node in done.graph.node)
    make_options = session_options if fused else onnxruntime.SessionOptions
    outputs = _run_in_ort(lambda: compare(model, done, feeds, make_options()))
    _require_equal(model, outputs)
    if not timed:
        return Measured(outputs, None)
    sessions = {
        "before": make_session(model, onnxruntime.SessionOptions()),
        "after": make_session(done, make_options()),
    }
    runs = {name: partial(session.run, None, feeds) for name, session in sessions.items()}
    times = time_alternately(runs, _affordable_pairs(model, feeds))
    return Measured(outputs, ratio_of(times["before"], times["after"]))


def _run_in_ort(call: Any) -> Any:
    """What `call` gives; an error of ONNX Runtime's becomes one that says what to do."""
    try:
        return call()
    except ValueError as error:
        raise DifferentOnnxAnswersError(f"{error}. Nothing was written") from error
    except ORT_ERRORS as error:
        raise InvalidInputError(
            f"the model does not run on inputs made from its shapes: {str(error).splitlines()[0]}. "
            "Use --no-compare, or another --batch"
        ) from error


def _require_equal(model: ModelProto, outputs: tuple[Comparison, ...]) -> None:
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    for output in outputs:
        allowed = TOLERANCES.get(ONNX_TYPES.get(types[output.output], ""), TOLERANCE_OTHER)
        if output.relative > allowed:
            raise DifferentOnnxAnswersError(
                f"the optimised model answers otherwise: output {output.output} differs by "
                f"{output.relative:.2e} of its largest value. Nothing was written. A model that "
                "draws random numbers cannot be compared: --no-compare"
            )


def _format(measured: Measured | None) -> list[str]:
    if measured is None:
        return []
    error = max((output.relative for output in measured.outputs), default=0.0)
    lines = [f"answers equal within {error:.1e} of the largest value"]
    if measured.ratio is not None:
        lines.append(f"time against ONNX Runtime's own optimisation: {measured.ratio}")
    return lines


def _check_target(model: Path, to: Path | None) -> None:
    if to is None:
        return
    if to.exists():
        raise InvalidInputError(f"--to {to} is there already; nothing is overwritten")
    if not to.parent.is_dir():
        raise InvalidInputError(f"--to: there is no folder {to.parent}; make it first")


def _bytes(model: ModelProto) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise InvalidInputError(f"the model cannot be written as one file: {error}") from error


def act(a: argparse.Namespace) -> Answer:
    """One model, with options that mean something."""
    if a.batch < 1:
        raise InvalidInputError("--batch is at least 1")
    return run(a)
