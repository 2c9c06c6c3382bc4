"""The CPU backend's product with many threads at once, also under sanitizers."""

import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
SOURCES = (
    "cpu/tests/gemm_test.cpp",
    "cpu/matmul_bias_act_cpu.cpp",
    "cpu/gemm.cpp",
    "cpu/micro_kernel.cpp",
)


@pytest.mark.long
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_product_is_right_and_clean_under_a_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    program = str(tmp_path / "gemm_test")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"]
    include = [f"-I{KERNELS / name}" for name in ("runtime", "cpusim/include")]
    sources = [str(KERNELS / source) for source in SOURCES]
    command = ["g++", *flags, f"-fsanitize={sanitizer}", *include, *sources, "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
