"""The ATC wrapper against an atc that takes only what the real one takes; and AIPP files."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ascend_ops.aipp import check_aipp, format_aipp, read_aipp
from ascend_ops.atc import convert, find_atc
from ascend_ops.atc_arguments import ConvertOptions, build_arguments
from ascend_ops.atc_errors import REMEDIES, explain
from ascend_ops.errors import ConversionError, InvalidInputError

RGB: dict[str, Any] = {
    "aipp_mode": "static",
    "input_format": "RGB888_U8",
    "src_image_size_w": 256,
    "src_image_size_h": 256,
    "crop": True,
    "load_start_pos_w": 16,
    "load_start_pos_h": 16,
    "crop_size_w": 224,
    "crop_size_h": 224,
    "mean_chn_0": 104,
    "var_reci_chn_0": 0.0039,
}
IMAGE = "image:1,224,224,3"


@pytest.fixture
def atc(tmp_path: Path) -> str:
    """A program atc in a folder of its own."""
    path = tmp_path / "bin" / "atc"
    path.parent.mkdir()
    script = Path(__file__).parent / "fake_atc.py"
    path.write_text(f'#!/bin/sh\nset -eu\nexec "{sys.executable}" "{script}" "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def options(
    folder: Path, content: str = "good", model: str = "m.pb", **more: Any
) -> ConvertOptions:
    """A conversion of a model whose first line tells the fake atc what to do."""
    (folder / model).write_text(f"{content}\n", encoding="utf-8")
    more = {"soc_version": "Ascend910B1", **more}
    return ConvertOptions(model=folder / model, output=folder / "out", **more)


def aipp_file(folder: Path, entry: Any) -> Path:
    path = folder / "aipp.json"
    path.write_text(json.dumps(entry), encoding="utf-8")
    return path


ACCEPTED: dict[str, dict[str, Any]] = {
    "the least": {},
    "onnx": {"model": "m.onnx", "input_shape": "x:1,3,224,224", "input_format": "NCHW"},
    "nodes": {"out_nodes": "a:0;b:1", "output_type": "a:0:FP16"},
    "type": {"output_type": "FP32", "log": "info"},
    "batches": {"input_shape": "x:-1,8;y:4,8", "dynamic_batch_size": "1,4,16,32"},
    "images": {"input_shape": "x:1,-1,-1,3", "dynamic_image_size": "224,224;448,448"},
    "dims": {"input_shape": "x:-1,-1", "input_format": "ND", "dynamic_dims": "1,16;4,32"},
    "range": {"input_shape": "x:1~8,8"},
    "modes": {"op_select_implmode": "high_precision", "optypelist_for_implmode": "Gelu,SoftmaxV2"},
    "for all": {"op_select_implmode": "high_performance_for_all"},
    "precision": {"precision_mode_v2": "mixed_float16"},
    "950": {"soc_version": "Ascend950PR_9599"},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_accepted_here_is_accepted_by_atc(tmp_path: Path, atc: str, name: str) -> None:
    answer = convert(options(tmp_path, **ACCEPTED[name]), atc)
    assert answer.data["model"] == str(tmp_path / "out.om")
    given = (tmp_path / "out.om").read_text().splitlines()
    assert answer.data["command"] == [atc, *given]
    for option, value in ACCEPTED[name].items():
        if option != "model":
            assert f"--{option}={value}" in given


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "soc": ({"soc_version": "Ascend910B5"}, r"is no SoC that atc knows; did you mean Ascend910B"),
    "no soc": (
        {"soc_version": ""},
        r"^give --soc-version\. It is Ascend and the Name that npu-smi",
    ),
    "ending": ({"model": "m.bin"}, r"ends in none of"),
    "framework": ({"framework": "onnx"}, r"is a model of tensorflow by its ending"),
    "weights": ({"model": "m.prototxt"}, r"needs its weights"),
    "format": ({"model": "m.onnx", "input_format": "NHWC"}, r"none of onnx's: NCHW"),
    "shape": ({"input_shape": "1,2,3"}, r"is not name:size"),
    "size": ({"input_shape": "x:1,0"}, r"'0' in 'x:1,0' is no size"),
    "twice": ({"input_shape": "x:1;x:2"}, r"names an input twice"),
    "two dynamics": (
        {"input_shape": "x:-1,8", "dynamic_batch_size": "1,2", "dynamic_dims": "1;2"},
        r"exclude each other",
    ),
    "one profile": ({"input_shape": "x:-1,8", "dynamic_batch_size": "4"}, r"has 1 profiles"),
    "many": (
        {"input_shape": "x:-1,8", "dynamic_batch_size": ",".join(map(str, range(1, 102)))},
        r"has 101 profiles",
    ),
    "same": ({"input_shape": "x:-1,8", "dynamic_batch_size": "4,4"}, r"has a profile twice"),
    "zero": ({"input_shape": "x:-1,8", "dynamic_batch_size": "0,4"}, r"sizes are above 0"),
    "word": ({"input_shape": "x:-1,8", "dynamic_batch_size": "a,4"}, r"that is no number"),
    "no -1": ({"input_shape": "x:1,8", "dynamic_batch_size": "1,4"}, r"needs a -1"),
    "not the batch": ({"input_shape": "x:-1,-1", "dynamic_batch_size": "1,4"}, r"only the batch"),
    "mixed": ({"input_shape": "x:-1,1~8", "dynamic_batch_size": "1,4"}, r"a range \(~\)"),
    "image of one": ({"input_shape": "x:1,-1,-1,3", "dynamic_image_size": "8;9"}, r"height,width"),
    "channels": ({"input_shape": "x:1,-1,-1,-1", "dynamic_image_size": "8,8;9,9"}, r"only height"),
    "dims format": ({"input_shape": "x:-1", "dynamic_dims": "1;2"}, r"needs --input-format ND"),
    "dims count": (
        {"input_shape": "x:-1,-1", "input_format": "ND", "dynamic_dims": "1;2"},
        r"1 sizes, and --input-shape has 2 times -1",
    ),
    "uneven": (
        {"input_shape": "x:-1,-1", "input_format": "ND", "dynamic_dims": "1,2;3"},
        r"must have one length",
    ),
    "list alone": ({"optypelist_for_implmode": "Gelu"}, r"both or none"),
    "mode alone": ({"op_select_implmode": "high_precision"}, r"needs --optypelist-for-implmode"),
    "list for all": (
        {"op_select_implmode": "high_precision_for_all", "optypelist_for_implmode": "Gelu"},
        r"takes no list",
    ),
    "list": (
        {"op_select_implmode": "high_precision", "optypelist_for_implmode": "Gelu;Tanh"},
        r"is no list like",
    ),
    "precision": ({"precision_mode": "fp8"}, r"none of force_fp16"),
    "two precisions": (
        {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"},
        r"exclude each other",
    ),
    "nodes": ({"out_nodes": "a,b"}, r"is not node:index"),
    "type": ({"output_type": "FP8"}, r"--output-type: 'FP8' is none of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_atc_would_refuse_is_refused_before_it_starts(tmp_path: Path, name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(InvalidInputError, match=message):
        convert(options(tmp_path, **given), "/no/atc")
    assert not (tmp_path / "out.om").exists()


def test_paths_that_cannot_be_are_told(tmp_path: Path) -> None:
    good = options(tmp_path)
    for changed, message in (
        ({"model": tmp_path / "none.pb"}, "there is no model at"),
        ({"model": tmp_path}, r"atc reads frozen graphs.*opsctl model optimize"),
        ({"output": tmp_path / "x.om"}, "without its ending"),
        ({"output": tmp_path}, "is a folder; add the name"),
        ({"output": tmp_path / "no/x"}, "there is no folder"),
        ({"weight": tmp_path / "m.pb"}, "--weight is for Caffe models"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            build_arguments(ConvertOptions(**{**vars(good), **changed}))


def test_an_aipp_file_is_written_beside_the_model_and_read_by_atc(tmp_path: Path, atc: str) -> None:
    given = options(tmp_path, input_shape=IMAGE, aipp=aipp_file(tmp_path, RGB))
    convert(given, atc)
    written = tmp_path / "out.aipp.cfg"
    assert f"--insert_op_conf={written}" in (tmp_path / "out.om").read_text().splitlines()
    assert written.read_text().splitlines()[:4] == [
        "aipp_op {",
        "    related_input_rank: 0",
        "    aipp_mode: static",
        "    input_format: RGB888_U8",
    ]
    assert "    crop: true" in written.read_text().splitlines()


def test_aipp_is_refused_for_what_is_no_image(tmp_path: Path) -> None:
    file = aipp_file(tmp_path, RGB)
    for shape, more, message in (
        ("x:1,224", {}, "AIPP is for images, and input x is none"),
        ("x:1,224,224,5", {}, "AIPP is for images"),
        ("x:1,3,224,224", {}, "AIPP is for images"),  # NCHW where NHWC is said
        ("x:1,224,224,1", {}, r"gives 3 channel\(s\), and input x has 1"),
        ("x:1,200,224,3", {}, "AIPP makes images of 224 × 224"),
        ("", {}, "--aipp needs --input-shape"),
        (IMAGE, {"input_format": "ND"}, "needs --input-format NCHW or NHWC"),
        ("x:1,-1,-1,3", {"dynamic_image_size": "8,8;9,9"}, "crops or pads exclude"),
    ):
        given = options(tmp_path, input_shape=shape, aipp=file, **more)
        with pytest.raises(InvalidInputError, match=message):
            build_arguments(given)
    second = aipp_file(tmp_path, RGB | {"related_input_rank": 1})
    with pytest.raises(InvalidInputError, match="rank 1 is none of the 1 inputs"):
        build_arguments(options(tmp_path, input_shape=IMAGE, aipp=second))


def test_aipp_reaches_the_image_among_several_inputs(tmp_path: Path) -> None:
    file = aipp_file(tmp_path, RGB | {"related_input_rank": 1})
    given = options(tmp_path, input_shape=f"words:1,128;{IMAGE}", aipp=file)
    assert build_arguments(given).aipp[0]["related_input_rank"] == 1


BAD_AIPP: dict[str, tuple[dict[str, Any], str]] = {
    "mode": ({"aipp_mode": "fast"}, "must be static or dynamic"),
    "field": ({"mean_chan_0": 1}, "no field 'mean_chan_0'; did you mean mean_chn_0"),
    "value": ({"mean_chn_0": 256}, "must be a whole number from 0 to 255"),
    "truth": ({"csc_switch": 1}, "must be true or false"),
    "truth for a number": ({"mean_chn_0": True}, "must be a whole number"),
    "format": ({"input_format": "JPEG"}, "one of YUV420SP_U8"),
    "crop": ({"load_start_pos_w": 100}, "the crop ends at 324, outside src_image_size_w 256"),
    "no crop": ({"crop": False}, "need crop: true"),
    "odd": ({"input_format": "YUV420SP_U8", "crop_size_w": 223}, "must be even"),
    "swap": ({"ax_swap_switch": True}, "needs input_format XRGB8888_U8"),
    "dynamic field": ({"max_src_image_size": 100}, "belongs to aipp_mode dynamic"),
    "infinite": ({"var_reci_chn_0": float("inf")}, "must be a number up to 65504"),
}


@pytest.mark.parametrize("name", BAD_AIPP)
def test_a_field_that_cannot_be_is_told(name: str) -> None:
    change, message = BAD_AIPP[name]
    with pytest.raises(InvalidInputError, match=message):
        check_aipp("aipp.json", RGB | change)


def test_dynamic_aipp_has_a_size_and_nothing_static() -> None:
    entry = check_aipp("a", {"aipp_mode": "dynamic", "max_src_image_size": 150528})
    assert format_aipp([entry]) == (
        "aipp_op {\n    related_input_rank: 0\n    aipp_mode: dynamic\n"
        "    max_src_image_size: 150528\n}\n"
    )
    with pytest.raises(InvalidInputError, match="needs max_src_image_size"):
        check_aipp("a", {"aipp_mode": "dynamic"})
    with pytest.raises(InvalidInputError, match="crop belongs to aipp_mode static"):
        check_aipp("a", {"aipp_mode": "dynamic", "max_src_image_size": 1, "crop": True})


def test_yaml_and_json_describe_the_same(tmp_path: Path) -> None:
    lines = "\n".join(f"{name}: {json.dumps(value)}" for name, value in RGB.items())
    (tmp_path / "aipp.yaml").write_text(lines, encoding="utf-8")
    assert read_aipp(tmp_path / "aipp.yaml") == read_aipp(aipp_file(tmp_path, [RGB]))


@pytest.mark.parametrize("content", ["[]", "[1]", "{", "3"])
def test_a_file_that_is_no_description_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "aipp.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=str(path)):
        read_aipp(path)
    with pytest.raises(InvalidInputError, match="describes one input twice"):
        read_aipp(aipp_file(tmp_path, [RGB, RGB]))


@pytest.mark.parametrize("code", REMEDIES)
def test_each_error_code_becomes_what_to_do(tmp_path: Path, atc: str, code: str) -> None:
    with pytest.raises(ConversionError) as raised:
        convert(options(tmp_path, f"{code}: Op x is wrong."), atc)
    expected = f"atc failed (exit code 255) with {code}: Op x is wrong. Next: {REMEDIES[code]}"
    assert str(raised.value) == expected


def test_other_failures_are_told_too(tmp_path: Path, atc: str) -> None:
    for content, message in (
        ("E19999: Inner Error!", "E19999: Inner Error!. Next: look the code up"),
        ("hal", "the driver is not there: mount"),
        ("nothing", "atc ended well and wrote no"),
    ):
        with pytest.raises(ConversionError, match=message):
            convert(options(tmp_path, content), atc)
    assert explain(["", "what\n", "\n"], 9).startswith("atc failed (exit code 9): what. Next: run")
    with pytest.raises(ConversionError, match=r"there is no .*: it comes with the CANN toolkit"):
        find_atc(str(tmp_path / "none"))


def test_a_model_for_another_system_is_found(tmp_path: Path, atc: str) -> None:
    answer = convert(options(tmp_path, "dynamic"), atc)
    assert answer.data["model"] == str(tmp_path / "out_linux_x86_64.om")


def test_the_toolkit_is_found_through_its_variable(
    tmp_path: Path, atc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", os.defpath)
    assert find_atc(None) == atc


def test_the_command_line_converts_and_streams_the_log(tmp_path: Path, atc: str) -> None:
    options(tmp_path)
    command = [sys.executable, "-m", "ascend_ops.atc", "--json", "--soc-version=Ascend310P3",
               f"--atc={atc}", str(tmp_path / "m.pb")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == str(tmp_path / "m.om")
    assert "ATC start working now" in done.stderr
    planned = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True)
    assert json.loads(planned.stdout)["outcome"] == "planned"


def test_a_chip_whose_name_misleads_is_noted(tmp_path: Path, atc: str) -> None:
    answer = convert(options(tmp_path, soc_version="Ascend910B"), atc)
    assert "is a chip of the 910A generation" in answer.text
