"""The CANN package's CMake, run with tools that record what they are given instead of CANN's."""

import re
import subprocess
from pathlib import Path

from ascend_ops.operator_folder import write_operator

KERNELS = Path(__file__).resolve().parent.parent
# The functions of CANN's find_package(ASC), and a language of which nothing is compiled.
NAMES = (
    "npu_op_package", "npu_op_code_gen", "npu_op_library", "npu_op_kernel_sources",
    "npu_op_kernel_library", "npu_op_package_add",
)  # fmt: skip
TOOLS = "list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})\nset(ASC_FOUND TRUE)\n" + "".join(
    f'function({name})\n  file(APPEND ${{CMAKE_BINARY_DIR}}/calls.txt "{name};${{ARGV}}\\n")\n'
    "endfunction()\n"
    for name in NAMES
)
COMPILER = "set(CMAKE_ASC_COMPILER /bin/true)\nset(CMAKE_ASC_COMPILER_ENV_VAR ASC)\n"
LANGUAGE = {
    "CMakeDetermineASCCompiler.cmake": COMPILER
    + "configure_file(${CMAKE_CURRENT_LIST_DIR}/CMakeASCCompiler.cmake.in "
    "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake)\n",
    "CMakeASCCompiler.cmake.in": COMPILER + "set(CMAKE_ASC_COMPILER_LOADED 1)\n"
    "set(CMAKE_ASC_SOURCE_FILE_EXTENSIONS asc)\nset(CMAKE_ASC_OUTPUT_EXTENSION .o)\n",
    "CMakeASCInformation.cmake": 'set(CMAKE_ASC_COMPILE_OBJECT "true")\n'
    'set(CMAKE_ASC_CREATE_SHARED_LIBRARY "true")\nset(CMAKE_ASC_INFORMATION_LOADED 1)\n',
    "CMakeTestASCCompiler.cmake": "set(CMAKE_ASC_COMPILER_WORKS 1)\n",
}


def configure(folder: Path, *options: str) -> dict[str, list[list[str]]]:
    """The calls of each tool, with their arguments."""
    tools = folder / "asc"
    tools.mkdir()
    (tools / "ASCConfig.cmake").write_text(TOOLS, encoding="utf-8")
    for name, text in LANGUAGE.items():
        (tools / name).write_text(text, encoding="utf-8")
    command = ["cmake", "-S", str(KERNELS / "cann"), "-B", str(folder / "build")]
    subprocess.run(
        [*command, f"-DASC_DIR={tools}", *options], check=True, capture_output=True, text=True
    )
    calls: dict[str, list[list[str]]] = {}
    for line in (folder / "build/calls.txt").read_text(encoding="utf-8").splitlines():
        name, *words = line.split(";")
        calls.setdefault(name, []).append(words)
    return calls


def test_the_package_has_every_operator(tmp_path: Path) -> None:
    calls = configure(tmp_path)
    listed = re.search(
        r"set\(ASCEND_OPERATORS ([^)]*)\)", (KERNELS / "CMakeLists.txt").read_text(encoding="utf-8")
    )
    assert listed is not None
    folders = [words[words.index("KERNEL_DIR") + 1] for words in calls["npu_op_kernel_sources"]]
    assert sorted(folders) == listed.group(1).split()
    for folder in folders:
        assert (tmp_path / f"build/op_kernel/{folder}/ascend_{folder}.cpp").is_file()


def test_a_users_operator_is_packed_like_ours(tmp_path: Path) -> None:
    write_operator("scaled_tanh", tmp_path, ())
    own = tmp_path / "scaled_tanh"
    calls = configure(tmp_path, f"-DASCEND_EXTRA_OPERATORS={own}")
    (row,) = [words for words in calls["npu_op_kernel_sources"] if "scaled_tanh" in words]
    assert row[1:3] == ["OP_TYPE", "AscendScaledTanh"]
    host = str(own / "op_host/ascend_scaled_tanh_host.cpp")
    assert host in calls["npu_op_code_gen"][0]
    assert host in next(words for words in calls["npu_op_library"] if "TILING" in words)
    staged = tmp_path / "build/op_kernel/scaled_tanh"
    flags = ["-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", "-D__NPU_ARCH__=2201"]
    flags += ["-DDTYPE_X=float", f"-I{KERNELS / 'cpusim/include'}"]
    subprocess.run(["g++", *flags, str(staged / "ascend_scaled_tanh.cpp")], check=True)
    parsers = (tmp_path / "build/extra_parsers.cc").read_text(encoding="utf-8")
    assert re.findall(r'\("(\w+)"\)', parsers) == ["AscendScaledTanh", "AscendScaledTanh"]
    assert parsers.count(";\n") == 1
