"""The CPU backend's product and convolution with many threads at once, under sanitizers."""

import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
PRODUCT = ("cpu/gemm.cpp", "cpu/gemm_plan.cpp", "cpu/micro_kernel.cpp")
PROGRAMS = {
    "gemm_test": ("cpu/tests/gemm_test.cpp", "cpu/matmul_bias_act_cpu.cpp", *PRODUCT),
    "conv_test": ("cpu/tests/conv_test.cpp", "cpu/conv2d_bias_relu_cpu.cpp", *PRODUCT),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_an_operator_is_right_and_clean_under_a_sanitizer(
    name: str, sanitizer: str, tmp_path: Path
) -> None:
    program = str(tmp_path / name)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"]
    include = [f"-I{KERNELS / name}" for name in ("runtime", "cpusim/include")]
    sources = [str(KERNELS / source) for source in PROGRAMS[name]]
    command = ["g++", *flags, f"-fsanitize={sanitizer}", *include, *sources, "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
