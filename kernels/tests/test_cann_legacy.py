"""The legacy CANN route: what CMake generates for it, with tools that stand for CANN's.

Each generated kernel compiles against cpusim's headers (the real ones have the same names), and
each generated launcher against the declarations that the tests of the runtime use.
"""

import re
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
LEGACY = KERNELS / "cann/legacy"
# What CANN's ascendc.cmake offers, recorded instead of run.
TOOLS = """
function(ascendc_library name kind)
  file(WRITE ${CMAKE_BINARY_DIR}/kernel_sources.txt "${ARGN}")
  file(WRITE ${CMAKE_BINARY_DIR}/empty.cpp "")
  add_library(${name} ${kind} ${CMAKE_BINARY_DIR}/empty.cpp)
endfunction()
function(ascendc_include_directories)
endfunction()
function(ascendc_compile_options)
endfunction()
"""
TYPES = {"float": 3, "half": 3, "bfloat16_t": 3}


def configure(
    folder: Path, *options: str, toolkit: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs CMake on the legacy folder, with or without a toolkit."""
    tools = folder / "cann/tools/tikcpp/ascendc_kernel_cmake"
    if toolkit:
        tools.mkdir(parents=True)
        (tools / "ascendc.cmake").write_text(TOOLS, encoding="utf-8")
    home = folder / "cann" if toolkit else ""
    command = ["cmake", "-S", str(LEGACY), "-B", str(folder / "build")]
    command += [f"-DASCEND_CANN_PACKAGE_PATH={home}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def generated(folder: Path) -> list[Path]:
    """The kernel sources that the library is made of."""
    names = (folder / "build/kernel_sources.txt").read_text(encoding="utf-8").split(";")
    return [Path(name) for name in names]


def test_each_operator_gets_an_entry_for_each_type(tmp_path: Path) -> None:
    done = configure(tmp_path)
    assert done.returncode == 0, done.stderr
    listed = re.search(
        r"set\(ASCEND_OPERATORS ([^)]*)\)", (KERNELS / "CMakeLists.txt").read_text(encoding="utf-8")
    )
    assert listed is not None
    expected = {
        f"ascend_{operator}_{kind}{index}"
        for operator in listed.group(1).split()
        for kind in TYPES
        for index in (("_int32_t", "_int64_t") if operator == "gather_add_relu" else ("",))
    }
    assert {path.stem for path in generated(tmp_path)} == expected


def test_a_soc_without_bfloat16_gets_no_kernel_of_it(tmp_path: Path) -> None:
    assert configure(tmp_path, "-DSOC_VERSION=Ascend310P3").returncode == 0
    assert not [path for path in generated(tmp_path) if "bfloat16" in path.stem]


def test_a_soc_whose_cube_unit_lacks_float_is_told_what_it_does_not_get(tmp_path: Path) -> None:
    done = configure(tmp_path, "-DSOC_VERSION=Ascend310P3")
    told = " ".join(done.stderr.split())
    assert "Ascend310P3 gets no conv2d_bias_relu and no matmul_bias_act" in told
    operators = {_folder(path) for path in generated(tmp_path)}
    assert operators == {"embedding_dense_grad", "gather_add_relu", "sigmoid", "sigmoid_grad"}
    assert {path.stem for path in (tmp_path / "build/launch").glob("*.cpp")} == operators


@pytest.mark.long
def test_the_generated_sources_compile(tmp_path: Path) -> None:
    assert configure(tmp_path).returncode == 0
    flags = ["g++", "-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", "-D__NPU_ARCH__=2201"]
    include = [f"-I{path}" for path in (LEGACY, KERNELS / "cpusim/include", KERNELS / "runtime")]
    kernels = generated(tmp_path)
    for kernel in kernels:
        subprocess.run([*flags, *include, str(kernel)], check=True)
    headers = tmp_path / "headers"
    headers.mkdir()
    for kernel in kernels:
        text = (KERNELS / f"{_folder(kernel)}/op_kernel/ascend_{_folder(kernel)}.cpp").read_text()
        arguments = ", ".join(["void*"] * len(re.findall(r"GM_ADDR \w+", text)))
        (headers / f"aclrtlaunch_{kernel.stem}.h").write_text(
            "#pragma once\n#define ACLRT_LAUNCH_KERNEL(name) aclrtlaunch_##name\n"
            f'extern "C" uint32_t aclrtlaunch_{kernel.stem}(uint32_t, aclrtStream, {arguments});\n'
        )
    host = [*flags, f"-I{headers}", f"-I{KERNELS / 'runtime/tests'}", f"-I{KERNELS / 'runtime'}"]
    launchers = sorted((tmp_path / "build/launch").glob("*.cpp"))
    assert len(launchers) == len({_folder(kernel) for kernel in kernels})
    for launcher in launchers:
        subprocess.run([*host, str(launcher)], check=True)


def _folder(kernel: Path) -> str:
    return re.sub(r"^ascend_|_(float|half|bfloat16_t)(_int\d\d_t)?$", "", kernel.stem)


def test_without_cann_it_says_what_to_do(tmp_path: Path) -> None:
    assert "no CANN toolkit. Source its set_env.sh" in " ".join(
        configure(tmp_path, toolkit=False).stderr.split()
    )
    done = configure(tmp_path, f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}", toolkit=False)
    assert "has no ascendc.cmake" in " ".join(done.stderr.split())
