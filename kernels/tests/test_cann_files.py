"""What is built with CANN, as far as it shows without it: staging, lists that agree, syntax."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from ascend_ops.build_record import read_build_record

KERNELS = Path(__file__).resolve().parent.parent
OPERATORS = read_build_record().operators
TYPE_MACROS = {
    "sigmoid": "DTYPE_X",
    "sigmoid_grad": "DTYPE_Y",
    "embedding_dense_grad": "DTYPE_GRAD",
    "gather_add_relu": "DTYPE_TABLE",
    "matmul_bias_act": "DTYPE_A",
    "conv2d_bias_relu": "DTYPE_X",
}


# Operators whose TensorFlow op has a name of its own.
TENSORFLOW_NAMES = {"matmul_bias_act": "CustomFusedMatMul", "conv2d_bias_relu": "CustomFusedConv"}


def op_type(operator: str) -> str:
    """The operator's name in a graph."""
    return "Ascend" + "".join(word.capitalize() for word in operator.split("_"))


def test_every_list_has_every_operator() -> None:
    types = sorted(op_type(operator) for operator in OPERATORS)
    supported = json.loads((KERNELS / "cann/npu_supported_ops.json").read_text(encoding="utf-8"))
    plugin = (KERNELS / "cann/framework/tensorflow_plugin.cc").read_text(encoding="utf-8")
    project = (KERNELS / "cann/CMakeLists.txt").read_text(encoding="utf-8")
    origins = sorted(TENSORFLOW_NAMES.get(operator, op_type(operator)) for operator in OPERATORS)
    assert sorted(supported) == origins
    assert sorted(re.findall(r'REGISTER_CUSTOM_OP\("(\w+)"\)', plugin)) == types
    assert sorted(re.findall(r'OriginOpType\("(\w+)"\)', plugin)) == origins
    assert f"ASCEND_OPERATOR_TYPES {' '.join(map(op_type, OPERATORS))})" in project
    assert f"ASCEND_OPERATOR_FOLDERS {' '.join(OPERATORS)})" in project


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_definition_names_what_the_kernel_expects(operator: str) -> None:
    host = (KERNELS / operator / f"op_host/ascend_{operator}_host.cpp").read_text(encoding="utf-8")
    entry = (KERNELS / operator / f"op_kernel/ascend_{operator}.cpp").read_text(encoding="utf-8")
    assert f"OP_ADD({op_type(operator)});" in host
    named = re.findall(r'->(?:Input|Output)\("(\w+)"\)', host)
    arguments = re.findall(r"GM_ADDR (\w+)", entry)
    assert arguments == [*named, "workspace", "tiling"]
    assert f"ascend_{operator}(" in entry
    # CANN sets a macro for the type of each input, by its name.
    assert TYPE_MACROS[operator] == f"DTYPE_{named[0].upper()}"
    assert TYPE_MACROS[operator] in entry


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_staged_kernel_compiles_with_nothing_around_it(operator: str, tmp_path: Path) -> None:
    script = tmp_path / "stage.cmake"
    script.write_text(
        f"include({KERNELS}/cmake/AscendStageKernel.cmake)\n"
        f"ascend_stage_kernel({KERNELS} {operator} {tmp_path}/op_kernel)\n",
        encoding="utf-8",
    )
    project = tmp_path / "CMakeLists.txt"
    project.write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(stage NONE)\ninclude(stage.cmake)\n",
        encoding="utf-8",
    )
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    subprocess.run(command, check=True, capture_output=True)
    folder = tmp_path / "op_kernel" / operator
    names = {path.name for path in folder.iterdir()}
    assert {f"ascend_{operator}.cpp", f"{operator}_kernel.h", f"{operator}_tiling.h"} <= names
    flags = ["-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", "-D__NPU_ARCH__=2201"]
    flags += [
        f"-D{TYPE_MACROS[operator]}=float",
        "-DDTYPE_INDICES=int64_t",
        f"-I{KERNELS / 'cpusim/include'}",
    ]
    subprocess.run(["g++", *flags, str(folder / f"ascend_{operator}.cpp")], check=True)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_direct_launch_compiles_with_the_launch_made_a_call(
    operator: str, tmp_path: Path
) -> None:
    text = (KERNELS / operator / f"launch/{operator}.asc").read_text(encoding="utf-8")
    text, count = re.subn(r"<<<cores, 0, stream>>>\(", "(", text)
    assert count == 3
    source = tmp_path / "launch" / f"{operator}.cpp"
    source.parent.mkdir()
    source.write_text(text.replace('"../', f'"{KERNELS / operator}/'), encoding="utf-8")
    include = [
        f"-I{KERNELS / name}" for name in ("cpusim/include", "runtime/tests/acl", "runtime/tests")
    ]
    flags = ["-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", "-D__NPU_ARCH__=2201"]
    (tmp_path / "acl").symlink_to(KERNELS / "runtime/tests/acl")
    subprocess.run(["g++", *flags, *include, f"-I{tmp_path}", str(source)], check=True)
