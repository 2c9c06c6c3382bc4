"""`python -m ascend_ops.onnx_optimizer IN.onnx OUT.onnx`: fewer nodes, the same results.

First the passes of onnxoptimizer that change no result, one by one; then the fusions of
`ascend_ops.onnx_fusion`, whose nodes run in ONNX Runtime by `ascend_ops.onnx_runtime`, and on NPUs
through the parser plug-in of the operator package. Prints what was done, as JSON.
"""

import argparse
import contextlib
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import onnx
import onnxoptimizer
from google.protobuf.message import DecodeError, EncodeError
from onnx import ModelProto, TensorProto

from ascend_ops.errors import InvalidInputError
from ascend_ops.onnx_atc import ATC_RANK, for_atc
from ascend_ops.onnx_fusion import KINDS, RANK_MAX, Fusion, Refusal, fuse, opset_version
from ascend_ops.onnx_graph import nested_uses

# Passes that only take away what changes nothing. Those that fuse, or rewrite arithmetic, are left
# out: they round differently, and they hide the groups that the fusions look for.
PASSES: Final = (
    "eliminate_nop_dropout",
    "eliminate_nop_cast",
    "eliminate_nop_transpose",
    "eliminate_nop_reshape",
    "eliminate_nop_pad",
    "eliminate_identity",
    "extract_constant_to_initializer",
    "eliminate_deadend",
    "eliminate_unused_initializer",
)
EXIT_USAGE: Final = 2
# What protobuf can hold in one message; larger models keep their weights in files beside them.
MODEL_BYTES_MAX: Final = 2**31 - 1


class OnnxModelError(InvalidInputError):
    """A file is no ONNX model, or one that cannot be optimised."""


@dataclass(frozen=True)
class PassResult:
    """What a pass did to the numbers of nodes and initialisers, or why it was left out."""

    name: str
    nodes_removed: int
    initializers_removed: int
    skipped: str = ""


@dataclass(frozen=True)
class OptimizationReport:
    """What was done: passes, fusions, and groups that were left alone, with reasons."""

    opset: int
    nodes_before: int
    nodes_after: int
    passes: tuple[PassResult, ...]
    fusions: tuple[Fusion, ...]
    refusals: tuple[Refusal, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def read_model(path: Path) -> ModelProto:
    """The model of a file, checked; OnnxModelError says what is wrong with it."""
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except FileNotFoundError as error:
        raise OnnxModelError(
            f"cannot read {path}: there is no such file. Correct its path"
        ) from error
    except (OSError, DecodeError) as error:
        raise OnnxModelError(
            f"cannot read {path}: it is no ONNX model, or damaged ({error}). Export it again"
        ) from error
    except (onnx.checker.ValidationError, ValueError) as error:
        raise OnnxModelError(
            f"{path} is no valid ONNX model: {str(error).rstrip('.')}. Correct what "
            "exported it, and export again"
        ) from error
    return model


def _counts(model: ModelProto) -> tuple[int, int]:
    return len(model.graph.node), len(model.graph.initializer)


def _undefined_names(model: ModelProto) -> set[str]:
    """Names that the graph uses and nobody makes: what a pass must not leave behind."""
    graph = model.graph
    made = {value.name for value in (*graph.input, *graph.initializer)}
    made.update(tensor.values.name for tensor in graph.sparse_initializer)
    made.update(name for node in graph.node for name in node.output)
    used = {name for name in nested_uses(graph) if name}
    # What bodies make themselves is theirs; it is the same set before and after a pass.
    return used - made


def _run_pass(model: ModelProto, name: str) -> tuple[ModelProto, PassResult]:
    before = _counts(model)
    try:
        changed = onnxoptimizer.optimize(model, [name])
        onnx.checker.check_model(changed)
        lost = _undefined_names(changed) - _undefined_names(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        return model, PassResult(name, 0, 0, f"{type(error).__name__}: {error}")
    if lost:
        return model, PassResult(name, 0, 0, f"it would take away {sorted(lost)}, which is used")
    after = _counts(changed)
    return changed, PassResult(name, before[0] - after[0], before[1] - after[1])


def _check_opset(model: ModelProto) -> None:
    """An opset that the installed onnx does not know may give an operator another meaning."""
    version, known = opset_version(model), onnx.defs.onnx_opset_version()
    if version > known:
        raise OnnxModelError(
            f"the model uses opset {version}, and onnx {onnx.__version__} knows opsets up to "
            f"{known}: what its operators mean is not known. Install a newer one (pip install "
            f"--upgrade onnx onnxruntime), or export the model with opset {known} or lower"
        )


def _has_external_data(model: ModelProto) -> bool:
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in model.graph.initializer)


def optimize(
    model: ModelProto, x_rank_max: int = RANK_MAX, kinds: tuple[str, ...] = KINDS
) -> tuple[ModelProto, OptimizationReport]:
    """A new model with the same inputs, outputs and results; the one that is given stays as it is.

    `x_rank_max` is the highest rank of the left side of a product that is fused, and of `kinds` are
    the types of fused nodes that are made.

    OnnxModelError for a model whose weights are still in files beside it, of more than 2 GiB, or of
    an opset that the installed onnx does not know.
    """
    _check_opset(model)
    if _has_external_data(model):
        raise OnnxModelError(
            "the model's weights are in external files; load it with them: onnx.load(path)"
        )
    if model.ByteSize() > MODEL_BYTES_MAX:
        raise OnnxModelError("the model has more than 2 GiB, which one ONNX message cannot hold")
    original = model
    passes = []
    for name in PASSES:
        model, result = _run_pass(model, name)
        passes.append(result)
    if model is original:
        model = ModelProto.FromString(model.SerializeToString())
    fusions, refusals = fuse(model, x_rank_max, kinds)
    report = OptimizationReport(
        opset_version(model),
        len(original.graph.node),
        len(model.graph.node),
        tuple(passes),
        fusions,
        refusals,
    )
    return model, report


def format_report(report: OptimizationReport) -> str:
    """The report as lines of text."""
    counts = Counter(fusion.fused for fusion in report.fusions)
    fused = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing"
    lines = [
        f"nodes {report.nodes_before} → {report.nodes_after} (opset {report.opset}); fused {fused}"
    ]
    lines += [f"  {'+'.join(f.replaced)} → {f.fused} ({f.output})" for f in report.fusions]
    lines += [f"  left alone: {r.candidate} ({r.output}): {r.reason}" for r in report.refusals]
    lines += [f"  skipped: {p.name}: {p.skipped}" for p in report.passes if p.skipped]
    return "\n".join(lines)


def write_model(data: bytes, path: Path) -> None:
    """Writes the whole file or nothing; InvalidInputError where that cannot be."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise InvalidInputError(
            f"cannot write {path}: {error.strerror or error}. Choose another place"
        ) from error


def main() -> int:
    """Optimises a file; prints the report as JSON on stdout and as text on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m ascend_ops.onnx_optimizer", description=__doc__
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--for-atc", action="store_true", help="the form that ATC reads")
    arguments = parser.parse_args()
    try:
        rank = ATC_RANK if arguments.for_atc else RANK_MAX
        model, report = optimize(read_model(arguments.source), rank)
        data = (for_atc(model) if arguments.for_atc else model).SerializeToString()
        write_model(data, arguments.target)
    except (InvalidInputError, EncodeError) as error:
        print(json.dumps({"outcome": "error", "message": str(error)}))
        return EXIT_USAGE
    print(format_report(report), file=sys.stderr)
    print(json.dumps({"outcome": "optimized", **report.as_dict()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
