"""The runtime's C++ tests: sessions, pool, pipeline and the AscendCL layer, also sanitized."""

import json
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
RUNTIME = KERNELS / "runtime"
CPUSIM = ["cpusim_device", "operator_session", "pipeline_pool", "memory_pool"]
ACLRT = ["aclrt_device", "operator_session", "memory_pool"]


def build(test: str, parts: list[str], folder: Path, *flags: str) -> str:
    """Compiles one C++ test with the sources that it needs; the program's path."""
    program = str(folder / test)
    sources = [str(RUNTIME / f"{part}.cpp") for part in parts]
    common = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"]
    include = [f"-I{RUNTIME}", f"-I{RUNTIME / 'tests'}"]
    source = str(RUNTIME / "tests" / f"{test}.cpp")
    subprocess.run(["g++", *common, *flags, *include, source, *sources, "-o", program], check=True)
    return program


def run(*command: str) -> str:
    """The program's output; its message when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_sessions_pool_and_pipeline_on_cpusim(tmp_path: Path) -> None:
    run(build("runtime_test", CPUSIM, tmp_path), "100")


@pytest.mark.long
def test_three_stages_overlap_copies_and_kernels(tmp_path: Path) -> None:
    program = build("runtime_test", CPUSIM, tmp_path)
    # 20 ms a step, so that a busy machine's delays are small; 3 is the most that can be gained.
    speedups = [json.loads(run(program, "0", "20"))["speedup"] for _ in range(3)]
    assert max(speedups) >= 1.8


@pytest.mark.long
def test_the_ascendcl_layer_names_each_failure_and_leaks_nothing(tmp_path: Path) -> None:
    program = build("aclrt_test", ACLRT, tmp_path, "-fsanitize=address")
    assert run(program) == "aclFinalize\n"
    # When somebody else has initialised AscendCL, finalising it is not ours.
    assert run(program, "framework") == ""


@pytest.mark.long
def test_ten_thousand_random_schedules_never_share_a_stage(tmp_path: Path) -> None:
    run(build("runtime_test", CPUSIM, tmp_path), "10000")


@pytest.mark.long
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_runtime_is_clean_under_a_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    run(build("runtime_test", CPUSIM, tmp_path, f"-fsanitize={sanitizer}"), "100")


@pytest.mark.long
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_ascendcl_layer_is_clean_under_a_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    run(build("aclrt_test", ACLRT, tmp_path, f"-fsanitize={sanitizer}"))
