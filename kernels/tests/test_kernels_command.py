"""A user's own operators: written from the template, built from the wheel's sources, tested."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ascend_ops.build_record import PACKAGE_DIR
from ascend_ops.errors import BuildError, InvalidInputError
from ascend_ops.operator_build import SOURCE, BuildSettings, build, find_tool
from ascend_ops.operator_folder import FILES, camel, find_operators, write_operator

KERNELS = Path(__file__).resolve().parent.parent


def run(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """`python -m ascend_ops.kernels --json …` in a folder, with nothing but this environment."""
    command = [sys.executable, "-m", "ascend_ops.kernels", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == code, done.stderr[-3000:] + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_wheel_has_every_source_and_no_test() -> None:
    wheel = {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=KERNELS, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    left_out = ("python/", "tests/", "runtime/tests/", "cpu/tests/", ".gitignore")
    sources = {Path(name) for name in tracked if not name.startswith(left_out)}
    assert sources <= wheel
    assert not any("tests" in path.parts or "build" in path.parts for path in wheel)


def test_a_new_operator_has_its_files_and_no_mark_of_the_template(tmp_path: Path) -> None:
    files = write_operator("scaled_tanh", tmp_path, ())
    folder = tmp_path / "scaled_tanh"
    assert files == [folder / name.format(name="scaled_tanh") for name in FILES]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    assert not [path for path, text in texts.items() if "@" in text.replace("@pytest", "")]
    assert "class AscendScaledTanh : public OpDef" in texts[files[7]]
    assert camel("scaled_tanh") == "ScaledTanh"
    assert find_operators([], tmp_path) == [folder]
    assert find_operators([], folder) == [folder]
    assert find_operators([tmp_path, folder], Path("/")) == [folder]


@pytest.mark.parametrize("name", ["Tanh", "9lives", "a__b", "_a", "a_", "a-b", "", "x" * 49, "a/b"])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="is no name of an operator"):
        write_operator(name, tmp_path, ())
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_and_no_operator_is_hidden(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="has an operator sigmoid already"):
        write_operator("sigmoid", tmp_path, ("sigmoid",))
    (tmp_path / "mine").mkdir()
    with pytest.raises(InvalidInputError, match="is there already, and nothing is overwritten"):
        write_operator("mine", tmp_path, ())
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"cannot write .*; nothing was left behind"):
        write_operator("mine", tmp_path / "file", ())


def test_a_folder_that_is_no_operator_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is no operator folder"):
        find_operators([tmp_path], tmp_path)
    assert find_operators([], tmp_path) == []


def test_what_a_build_needs_is_checked_first(tmp_path: Path) -> None:
    settings = BuildSettings((), tmp_path / "tree", tmp_path, source=tmp_path)
    with pytest.raises(InvalidInputError, match=r"no sources of ascend-ops.*--source DIR"):
        build(settings)
    with pytest.raises(BuildError, match=r"needs no-such-tool\. Install it: pip install"):
        find_tool("no-such-tool")
    answer = run(tmp_path, "bench", "--sizes", "0", code=2)
    assert answer["message"] == "bench: runs and sizes are whole numbers of at least 1"


def test_the_headline_figures_are_a_command(tmp_path: Path) -> None:
    answer = run(tmp_path, "bench", "--cycles", "--sizes", "4194304")
    (row,) = answer["rows"]
    assert answer["outcome"] == "reached"
    assert row["speedup"] >= 4.8
    assert row["vector_saving"] >= 0.68
    assert run(tmp_path, "bench", "--cycles", "--sizes", "1024", code=14)["outcome"] == "missed"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_new_operator_builds_and_passes_far_from_the_repository(tmp_path: Path) -> None:
    run(tmp_path, "new", "scaled_shift")
    answer = run(tmp_path, "test")
    assert (answer["outcome"], answer["operators"]) == ("passed", ["scaled_shift"])
    assert {row["variant"] for row in answer["rows"]} >= {"checked"}
    assert answer["tests"]["exit_code"] == 0
    assert answer["tests"]["files"] == [str(tmp_path / "scaled_shift/test_scaled_shift.py")]

    kernel = tmp_path / "scaled_shift/scaled_shift_kernel.h"
    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(text.replace("Adds(y, y, 1.0f, n)", "Adds(y, y, 1.5f, n)"))
    start = time.monotonic()
    wrong = run(tmp_path, "test", code=13)
    print(f"one operator again, with its tests: {time.monotonic() - start:.1f} s")
    assert wrong["outcome"] == "failed"
    assert not any(row["passed"] for row in wrong["rows"])

    kernel.write_text(text.replace("in_.EnQue(x);", ""))
    broken = run(tmp_path, "test", "scaled_shift", code=13)
    (message, *_) = [row["message"] for row in broken["rows"] if row["variant"] == "checked"]
    assert message.startswith("scaled_shift: core 0")

    kernel.write_text(text.replace("AscendC::Muls", "AscendC::Mulz"))
    failed = run(tmp_path, "test", code=5)
    assert "Mulz" in failed["message"]
    assert "cannot compile the operators" in failed["message"]

    kernel.write_text(text, encoding="utf-8")
    built = run(tmp_path, "build", "--tensorflow=off", f"--install={tmp_path / 'app'}")
    assert built["own_operators"] == ["scaled_shift"]
    use = "import numpy as n; from ascend_ops import numpy_ops as o, __file__ as f;"
    use += "print(o.elementwise('scaled_shift', [n.float32([1, 2])]).tolist(), f)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "app")}
    done = subprocess.run(
        [sys.executable, "-c", use], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split(" /")[0] == "[3.0, 5.0]"
    assert str(tmp_path / "app/ascend_ops") in done.stdout


def test_a_build_never_replaces_what_it_did_not_make(tmp_path: Path) -> None:
    other = tmp_path / PACKAGE_DIR.name
    other.mkdir()
    (other / "precious").touch()
    with pytest.raises(InvalidInputError, match="was not built by this command"):
        build(BuildSettings((), tmp_path / "tree", tmp_path))
    assert (other / "precious").exists()
