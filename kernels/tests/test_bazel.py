"""The Bazel build: it has what CMake has, each file that it names is there, and Bazel builds it."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
BUILD = (KERNELS / "BUILD.bazel").read_text(encoding="utf-8")
VARIANTS = (KERNELS / "bazel/variants.bzl").read_text(encoding="utf-8")
CMAKE = (KERNELS / "CMakeLists.txt").read_text(encoding="utf-8")
CPUSIM = (KERNELS / "cmake/AscendCpusim.cmake").read_text(encoding="utf-8")


def constant(text: str, name: str) -> object:
    """The value of a literal in a Starlark file, whose syntax is a part of Python's."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name} is not assigned")


@pytest.mark.parametrize("name", ["BUILD.bazel", "WORKSPACE", "bazel/BUILD.bazel",
                                  "bazel/variants.bzl", "bazel/tensorflow.bzl"])  # fmt: skip
def test_each_file_parses(name: str) -> None:
    assert ast.parse((KERNELS / name).read_text(encoding="utf-8")).body


def test_bazel_builds_the_operators_that_cmake_builds() -> None:
    listed = re.search(r"set\(ASCEND_OPERATORS ([^)]*)\)", CMAKE)
    assert listed is not None
    assert constant(BUILD, "OPERATORS") == listed.group(1).split()


def test_bazel_compiles_each_instruction_set_as_cmake_does() -> None:
    rows = re.findall(r"ascend_add_variant\((x86\S+) 0 ([^)]*)\)", CPUSIM)
    assert constant(VARIANTS, "VARIANTS") == {name: flags.split() for name, flags in rows}
    flags = constant(VARIANTS, "KERNEL_FLAGS")
    assert isinstance(flags, list)
    for flag in ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"):
        assert flag in flags
        assert flag in CPUSIM


def test_each_file_that_is_named_is_there() -> None:
    operators = constant(BUILD, "OPERATORS")
    assert isinstance(operators, list)
    named = re.findall(r'"((?:runtime|sigmoid|cmake)/[\w/.]+\.(?:cpp|py))"', BUILD)
    named += [f"{name}/{name}_cpusim.cpp" for name in operators]
    assert [name for name in named if not (KERNELS / name).is_file()] == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_bazel_builds_the_dispatcher_and_the_checked_kernels(tmp_path: Path) -> None:
    bazel = shutil.which("bazel")
    if bazel is None:
        pytest.skip("there is no bazel here")
    root = f"--output_user_root={tmp_path}"
    targets = ["//:libascend_ops.so", "//:libascend_cpusim_checked.so"]
    command = [bazel, root, "build", "--jobs=2", f"--symlink_prefix={tmp_path}/", *targets]
    subprocess.run(command, cwd=KERNELS, check=True)
    subprocess.run([bazel, root, "shutdown"], cwd=KERNELS, check=True)
    assert (tmp_path / "bin/libascend_cpusim_checked.so").is_file()
