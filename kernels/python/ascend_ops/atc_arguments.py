"""The argument list for atc, CANN's model compiler: built, and checked before it is started."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ascend_ops.aipp import Aipp, check_against_model, read_aipp
from ascend_ops.atc_shapes import InputShape, check_dynamic, parse_shapes
from ascend_ops.errors import InvalidInputError

FRAMEWORKS: Final = {"caffe": 0, "mindspore": 1, "tensorflow": 3, "onnx": 5}
ENDINGS: Final = {
    ".prototxt": "caffe", ".air": "mindspore", ".mindir": "mindspore", ".pb": "tensorflow",
    ".onnx": "onnx",
}  # fmt: skip
INPUT_FORMATS: Final = {
    "caffe": ("NCHW", "ND"),
    "mindspore": ("NCHW",),
    "tensorflow": ("NCHW", "NHWC", "ND", "NCDHW", "NDHWC"),
    "onnx": ("NCHW", "NCDHW", "ND"),
}
# Named one by one: a wrong name is found here, in a second, and not by atc after its start.
SOCS: Final = (
    "Ascend310", "Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7",
    "Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4",
    "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA",
    "Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1",
    "Ascend910_9391", "Ascend910_9381", "Ascend910_9392", "Ascend910_9382", "Ascend910_9372",
    "Ascend910_9362",
)  # fmt: skip
SOC_950: Final = re.compile(r"Ascend950(PR|DT)_\w+")
OUTPUT_TYPES: Final = (
    "FP32", "FP16", "INT8", "INT16", "UINT16", "UINT8", "INT32", "INT64", "UINT32", "UINT64",
    "DOUBLE",
)  # fmt: skip
PRECISION: Final = (
    "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_mix_precision",
    "allow_fp32_to_fp16", "must_keep_origin_dtype", "allow_mix_precision_fp16",
    "allow_mix_precision_bf16", "allow_fp32_to_bf16",
)  # fmt: skip
PRECISION_V2: Final = (
    "fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "cube_hif8",
    "mixed_hif8",
)  # fmt: skip
IMPLMODES: Final = ("high_precision", "high_performance")
IMPLMODES_FOR_ALL: Final = ("high_precision_for_all", "high_performance_for_all")
LOGS: Final = ("debug", "info", "warning", "error", "null")
PATH_MAX: Final = 4096  # E10021


@dataclass(frozen=True)
class ConvertOptions:
    """What a conversion is asked for; the names are atc's, "" is not given."""

    model: Path
    output: Path
    soc_version: str
    framework: str = ""
    weight: Path | None = None
    input_shape: str = ""
    input_format: str = ""
    out_nodes: str = ""
    output_type: str = ""
    precision_mode: str = ""
    precision_mode_v2: str = ""
    aipp: Path | None = None
    dynamic_batch_size: str = ""
    dynamic_image_size: str = ""
    dynamic_dims: str = ""
    op_select_implmode: str = ""
    optypelist_for_implmode: str = ""
    log: str = ""


@dataclass(frozen=True)
class Arguments:
    """atc's arguments, and what its AIPP file must hold (empty: none is needed)."""

    words: tuple[str, ...]
    aipp: tuple[Aipp, ...]
    aipp_path: Path
    notes: tuple[str, ...]


def build_arguments(options: ConvertOptions) -> Arguments:
    """The whole list, in a fixed order. InvalidInputError for what atc would refuse, or ignore."""
    framework = _framework(options)
    _check_files(options, framework)
    _check_soc(options.soc_version)
    inputs = parse_shapes(options.input_shape) if options.input_shape else ()
    if options.input_format and options.input_format not in INPUT_FORMATS[framework]:
        raise InvalidInputError(
            f"--input-format {options.input_format} is none of {framework}'s: "
            f"{', '.join(INPUT_FORMATS[framework])}"
        )
    input_format = options.input_format or ("NHWC" if framework == "tensorflow" else "NCHW")
    check_dynamic(_dynamic(options), inputs, input_format)
    _check_values(options)
    _check_nodes(options)
    aipp = _aipp(options, inputs, input_format)
    aipp_path = options.output.with_name(options.output.name + ".aipp.cfg")
    words = _words(options, FRAMEWORKS[framework], aipp_path if aipp else None)
    return Arguments(words, tuple(aipp), aipp_path, _notes(options))


def _framework(options: ConvertOptions) -> str:
    if options.model.is_dir():
        raise InvalidInputError(
            f"{options.model} is a folder, and atc reads frozen graphs. For a SavedModel run: "
            f"opsctl model optimize {options.model} --without-custom-ops --to {options.model}.pb"
        )
    guessed = ENDINGS.get(options.model.suffix, "")
    framework = options.framework or guessed
    if not framework:
        raise InvalidInputError(
            f"{options.model} ends in none of {', '.join(ENDINGS)}; say --framework "
            f"({', '.join(FRAMEWORKS)})"
        )
    if framework not in FRAMEWORKS:
        raise InvalidInputError(
            f"--framework {framework} is none of atc's: {', '.join(FRAMEWORKS)}"
        )
    if guessed and guessed != framework:
        raise InvalidInputError(
            f"{options.model.name} is a model of {guessed} by its ending, and --framework says "
            f"{framework}"
        )
    return framework


def _check_files(options: ConvertOptions, framework: str) -> None:
    if not options.model.is_file():
        raise InvalidInputError(f"there is no model at {options.model}. Correct its path")
    if framework == "caffe" and (options.weight is None or not options.weight.is_file()):
        raise InvalidInputError("a Caffe model needs its weights: --weight FILE.caffemodel")
    if framework != "caffe" and options.weight is not None:
        raise InvalidInputError(f"--weight is for Caffe models, and this is one of {framework}")
    folder = options.output.parent
    if options.output.suffix == ".om":
        raise InvalidInputError(f"--to is without its ending: {options.output.with_suffix('')}")
    if not options.output.name or options.output.is_dir():
        raise InvalidInputError(f"--to {options.output} is a folder; add the name of the model")
    if not folder.is_dir():
        raise InvalidInputError(f"--to: there is no folder {folder}; make it first")
    if len(str(options.output)) > PATH_MAX:
        raise InvalidInputError(f"--to is longer than {PATH_MAX} characters")


def _check_soc(soc: str) -> None:
    if soc in SOCS or SOC_950.fullmatch(soc):
        return
    near = difflib.get_close_matches(soc, SOCS, 1, cutoff=0.4)
    hint = f"; did you mean {near[0]}" if near else ""
    what = f"--soc-version {soc} is no SoC that atc knows{hint}" if soc else "give --soc-version"
    raise InvalidInputError(
        f"{what}. It is Ascend and the "
        "Name that npu-smi info shows (910A, A2, 310P), or ChipName_NPUName (A3, 950)"
    )


def _dynamic(options: ConvertOptions) -> dict[str, str]:
    values = {
        "--dynamic-batch-size": options.dynamic_batch_size,
        "--dynamic-image-size": options.dynamic_image_size,
        "--dynamic-dims": options.dynamic_dims,
    }
    return {name: value for name, value in values.items() if value}


def _check_values(options: ConvertOptions) -> None:
    for name, value, allowed in (
        ("--precision-mode", options.precision_mode, PRECISION),
        ("--precision-mode-v2", options.precision_mode_v2, PRECISION_V2),
        ("--op-select-implmode", options.op_select_implmode, IMPLMODES + IMPLMODES_FOR_ALL),
        ("--log", options.log, LOGS),
    ):
        if value and value not in allowed:
            raise InvalidInputError(f"{name} {value} is none of {', '.join(allowed)}")
    if options.precision_mode and options.precision_mode_v2:
        raise InvalidInputError("--precision-mode and --precision-mode-v2 exclude each other")
    mode, types = options.op_select_implmode, options.optypelist_for_implmode
    if types and not mode:
        raise InvalidInputError(
            "--optypelist-for-implmode says which ops, and --op-select-implmode how; both or none"
        )
    if mode in IMPLMODES and not types:
        raise InvalidInputError(
            f"--op-select-implmode {mode} needs --optypelist-for-implmode, such as Gelu,SoftmaxV2; "
            f"for every op choose {mode}_for_all"
        )
    if mode in IMPLMODES_FOR_ALL and types:
        raise InvalidInputError(f"--op-select-implmode {mode} is for all ops, and takes no list")
    if types and not re.fullmatch(r"\w+(,\w+)*", types):
        raise InvalidInputError(
            f"--optypelist-for-implmode {types!r} is no list like Gelu,SoftmaxV2"
        )


def _check_nodes(options: ConvertOptions) -> None:
    if options.out_nodes:
        for node in options.out_nodes.split(";"):
            if not re.fullmatch(r"[^:;\s]+:\d+", node):
                raise InvalidInputError(
                    f"--out-nodes: {node!r} is not node:index; as in dense:0;softmax:0"
                )
    if options.output_type and options.output_type not in OUTPUT_TYPES:
        for part in options.output_type.split(";"):
            found = re.fullmatch(r"[^:;\s]+:\d+:(\w+)", part)
            if found is None or found.group(1) not in OUTPUT_TYPES:
                raise InvalidInputError(
                    f"--output-type: {part!r} is none of {', '.join(OUTPUT_TYPES)}, nor "
                    "node:index:TYPE"
                )


def _aipp(options: ConvertOptions, inputs: Sequence[InputShape], input_format: str) -> list[Aipp]:
    if options.aipp is None:
        return []
    if not inputs:
        raise InvalidInputError("--aipp needs --input-shape: it is checked against the image input")
    entries = read_aipp(options.aipp)
    for entry in entries:
        check_against_model(entry, tuple(inputs), input_format)
        changes = entry.get("crop") or entry.get("padding")
        if options.dynamic_image_size and changes and entry["aipp_mode"] == "static":
            raise InvalidInputError(
                "--dynamic-image-size and an AIPP that crops or pads exclude each other"
            )
    return entries


def _words(options: ConvertOptions, framework: int, aipp_path: Path | None) -> tuple[str, ...]:
    values: list[tuple[str, object]] = [
        ("framework", framework),
        ("model", options.model),
        ("weight", options.weight),
        ("output", options.output),
        ("soc_version", options.soc_version),
        ("input_shape", options.input_shape),
        ("input_format", options.input_format),
        ("out_nodes", options.out_nodes),
        ("output_type", options.output_type),
        ("precision_mode", options.precision_mode),
        ("precision_mode_v2", options.precision_mode_v2),
        ("insert_op_conf", aipp_path),
        ("dynamic_batch_size", options.dynamic_batch_size),
        ("dynamic_image_size", options.dynamic_image_size),
        ("dynamic_dims", options.dynamic_dims),
        ("op_select_implmode", options.op_select_implmode),
        ("optypelist_for_implmode", options.optypelist_for_implmode),
        ("log", options.log),
    ]
    return tuple(f"--{name}={value}" for name, value in values if value not in ("", None))


def _notes(options: ConvertOptions) -> tuple[str, ...]:
    if options.soc_version == "Ascend910B":
        return (
            "Ascend910B is a chip of the 910A generation; an A2 is Ascend910B1 to Ascend910B4-1",
        )
    return ()
