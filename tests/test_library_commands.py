"""kernels, model and profile: options reach the tools, and their answers become opsctl's."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from opsctl import shell
from opsctl.cli import main
from opsctl.cli_parser import build_parser
from opsctl.commands import op_library
from opsctl.errors import ConfigError, OpsctlError, PreflightRefused, TimedOut

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("ascend_ops") is None, reason="ascend-ops is not installed"
)
ROW = "conv,Conv2D,AI_CORE,80,0.4,0.9\n"
HEADER = "Op Name,OP Type,Task Type,Task Duration(us),aic_mac_ratio,aic_mte2_ratio\n"


def opsctl(folder: Path, *arguments: str) -> shell.Completed:
    """One command in a folder, as a user runs it."""
    command = [sys.executable, "-m", "opsctl.cli", *arguments]
    return shell.run(command, cwd=folder, timeout_s=250)


@needs_library
def test_new_writes_an_operator_and_refuses_to_write_it_twice(tmp_path: Path) -> None:
    first = opsctl(tmp_path, "kernels", "new", "scaled_tanh")
    assert first.exit_code == 0, first.stderr
    assert (tmp_path / "scaled_tanh/scaled_tanh_kernel.h").is_file()
    assert first.stdout.splitlines()[-1] == "next: opsctl kernels test scaled_tanh"
    second = opsctl(tmp_path, "kernels", "new", "scaled_tanh", "-o", "json")
    assert second.exit_code == 2
    assert json.loads(second.stdout)["error"]["type"] == "ConfigError"
    assert "scaled_tanh is there already" in second.stderr


@needs_library
def test_the_headline_figures_of_the_kernel_are_one_command(tmp_path: Path) -> None:
    done = opsctl(tmp_path, "kernels", "bench", "--cycles", "--sizes", "4194304", "-o", "json")
    assert done.exit_code == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["speedup"] >= 4.8
    assert row["vector_saving"] >= 0.68


@needs_library
def test_a_profile_is_analysed_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "op_summary_1.csv").write_text(HEADER + ROW)
    done = opsctl(tmp_path, "profile", "analyse", ".", "--plot", "p.png", "-o", "json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["compute_utilisation"]) == ("analysed", 0.4)
    assert (tmp_path / "p.png").is_file()
    nothing = opsctl(tmp_path, "profile", "analyse", "none")
    assert nothing.exit_code == 2
    assert "none is no folder of msprof's output" in nothing.stderr


@needs_library
def test_a_conversion_is_planned_with_the_options_that_were_given(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"onnx")
    options = {
        "--to": "out", "--soc-version": "Ascend310P3", "--input-shape": "x:-1,3,8,8",
        "--input-format": "NCHW", "--out-nodes": "y:0", "--output-type": "FP16",
        "--precision-mode": "force_fp16", "--dynamic-batch-size": "1,4",
        "--op-select-implmode": "high_precision", "--optypelist-for-implmode": "Gelu",
        "--log": "info",
    }  # fmt: skip
    words = [word for pair in options.items() for word in pair]
    done = opsctl(tmp_path, "model", "convert", "m.onnx", *words, "--dry-run", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["command"] == [
        "atc", "--framework=5", "--model=m.onnx", "--output=out", "--soc_version=Ascend310P3",
        "--input_shape=x:-1,3,8,8", "--input_format=NCHW", "--out_nodes=y:0", "--output_type=FP16",
        "--precision_mode=force_fp16", "--dynamic_batch_size=1,4",
        "--op_select_implmode=high_precision", "--optypelist_for_implmode=Gelu", "--log=info",
    ]  # fmt: skip
    refused = opsctl(tmp_path, "model", "convert", "m.onnx", "--soc-version", "Ascend999")
    assert refused.exit_code == 2
    assert "is no SoC that atc knows" in refused.stderr


@needs_library
@pytest.mark.long
def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = opsctl(tmp_path, "model", "optimize", "nothing", "--to", "new")
    assert done.exit_code == 2
    assert "there is no model at nothing" in done.stderr


@needs_library
def test_an_onnx_model_is_optimised_by_the_same_command(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    done = opsctl(tmp_path, "model", "optimize", "m.onnx", "--to", "new.onnx", "--batch", "2")
    assert done.exit_code == 2
    assert "it is no ONNX model, or damaged" in done.stderr
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize(
    ("model", "option", "told"),
    [
        ("m.onnx", "--layout=nhwc", "--layout is for TensorFlow's models, and m.onnx is none"),
        ("m.onnx", "--signature=train", "--signature is for TensorFlow's models"),
        ("m.pb", "--for-atc", "--for-atc is for ONNX models, and m.pb is none by its ending"),
    ],
)
def test_an_option_for_other_models_is_refused(
    model: str, option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "optimize", model, option]) == 2
    assert told in capsys.readouterr().err


def tool(folder: Path, text: str) -> str:
    """A Python that has an ascend_ops with one tool, `probe`, and tells what it was given."""
    package = folder / "ascend_ops"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "probe.py").write_text(text)
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nset -eu\nexport PYTHONPATH={folder}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o700)
    return str(python)


def test_a_tools_answer_and_exit_code_become_the_commands(tmp_path: Path) -> None:
    text = "import json, sys\nprint('noise')\n"
    text += (
        "print(json.dumps({'outcome': 'failed', 'text': 'T', 'argv': sys.argv[1:]}))\nsys.exit(13)"
    )
    python = tool(tmp_path, text)
    outcome = op_library.call("probe", ["a", "--b=c d"], python=python, timeout_s=60)
    assert (outcome.exit_code, outcome.text) == (13, "T")
    assert outcome.data == {
        "outcome": "failed",
        "exit_code": 13,
        "argv": ["--json", "a", "--b=c d"],
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, "ConfigError"), (5, "BuildFailed"), (13, "SmokeFailed"), (9, "OpsctlError")],
)
def test_an_error_of_a_tool_keeps_its_meaning(tmp_path: Path, code: int, kind: str) -> None:
    text = (
        "import json, sys\nprint(json.dumps({'outcome': 'error', 'message': 'what, why, next'}))\n"
    )
    python = tool(tmp_path, f"{text}sys.exit({code})")
    with pytest.raises(OpsctlError, match=r"what, why, next") as raised:
        op_library.call("probe", [], python=python, timeout_s=60)
    assert type(raised.value).__name__ == kind


def test_a_tool_that_dies_hangs_or_is_missing_is_told(tmp_path: Path) -> None:
    python = tool(tmp_path, "import sys, time\ntime.sleep(float(sys.argv[2]))\nsys.exit(1)")
    with pytest.raises(OpsctlError, match=r"stopped without an answer: exit code 1"):
        op_library.call("probe", ["0"], python=python, timeout_s=60)
    with pytest.raises(TimedOut, match=r"ran over the time limit. Give it more: --timeout S"):
        op_library.call("probe", ["60"], python=python, timeout_s=0.5)
    with pytest.raises(ConfigError, match="there is no Python at /no/python"):
        op_library.call("probe", [], python="/no/python", timeout_s=60)
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nset -eu\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o700)
    with pytest.raises(PreflightRefused, match=r"bare has no ascend-ops, the operator library"):
        op_library.call("probe", [], python=str(bare), timeout_s=60)


def test_only_values_that_are_set_become_options() -> None:
    made = op_library.options(a=None, b=False, c=True, d_e="x y", f=[1, 2], g=[], h=0)
    assert made == ["--c", "--d-e=x y", "--f", "1", "2", "--h=0"]


@pytest.mark.parametrize("command", ["kernels", "model", "profile"])
def test_each_command_explains_its_actions(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "ACTION" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="required: ACTION") as refused:
        build_parser().parse_args([command])
    assert refused.value.next_step == f"See: opsctl {command} --help"
