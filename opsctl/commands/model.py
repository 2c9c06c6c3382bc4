"""model optimize and convert: a graph made faster, and a graph made an .om for NPUs."""

from __future__ import annotations

import argparse
from pathlib import Path

from opsctl.commands import op_library
from opsctl.commands.outcome import Outcome
from opsctl.errors import ConfigError

ONNX = ".onnx"


def model(arguments: argparse.Namespace) -> Outcome:
    """`model optimize MODEL` or `model convert MODEL`."""
    action = _optimize if arguments.action == "optimize" else _convert
    return action(arguments)


def _optimize(arguments: argparse.Namespace) -> Outcome:
    onnx = Path(arguments.model).suffix == ONNX
    _refuse_options_of_other_models(arguments, onnx=onnx)
    return _optimize_onnx(arguments) if onnx else _optimize_tensorflow(arguments)


def _refuse_options_of_other_models(arguments: argparse.Namespace, *, onnx: bool) -> None:
    foreign = ("signature", "inputs", "outputs", "layout") if onnx else ("for_atc",)
    given = [name for name in foreign if getattr(arguments, name)]
    if given:
        kind = "TensorFlow's models" if onnx else "ONNX models"
        option = f"--{given[0].replace('_', '-')}"
        raise ConfigError(
            f"{option} is for {kind}, and {arguments.model} is none by its ending",
            next_step=f"Leave {option} away",
        )


def _optimize_onnx(arguments: argparse.Namespace) -> Outcome:
    chosen = op_library.options(
        to=arguments.to,
        without_custom_ops=arguments.without_custom_ops,
        for_atc=arguments.for_atc,
        no_compare=arguments.no_compare,
        batch=arguments.batch,
        dry_run=arguments.dry_run,
    )
    words = [*chosen, "--", arguments.model]
    tool = "onnx_model"
    return op_library.call(tool, words, python=arguments.python, timeout_s=arguments.timeout)


def _optimize_tensorflow(arguments: argparse.Namespace) -> Outcome:
    chosen = op_library.options(
        to=arguments.to,
        signature=arguments.signature,
        inputs=arguments.inputs,
        outputs=arguments.outputs,
        without_custom_ops=arguments.without_custom_ops,
        layout=arguments.layout,
        no_compare=arguments.no_compare,
        batch=arguments.batch,
        dry_run=arguments.dry_run,
    )
    words = [*chosen, "--", arguments.model]
    return op_library.call("graph", words, python=arguments.python, timeout_s=arguments.timeout)


def _convert(arguments: argparse.Namespace) -> Outcome:
    chosen = op_library.options(
        to=arguments.to,
        framework=arguments.framework,
        weight=arguments.weight,
        soc_version=arguments.soc_version,
        input_shape=arguments.input_shape,
        input_format=arguments.input_format,
        out_nodes=arguments.out_nodes,
        output_type=arguments.output_type,
        precision_mode=arguments.precision_mode,
        precision_mode_v2=arguments.precision_mode_v2,
        aipp=arguments.aipp,
        dynamic_batch_size=arguments.dynamic_batch_size,
        dynamic_image_size=arguments.dynamic_image_size,
        dynamic_dims=arguments.dynamic_dims,
        op_select_implmode=arguments.op_select_implmode,
        optypelist_for_implmode=arguments.optypelist_for_implmode,
        log=arguments.log,
        atc=arguments.atc,
        dry_run=arguments.dry_run,
    )
    words = [*chosen, "--", arguments.model]
    return op_library.call("atc", words, python=arguments.python, timeout_s=arguments.timeout)
