"""Shared by the operator tests: the variants that this machine can run, and quiet TensorFlow."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Before anything imports TensorFlow: its start-up log would drown a failing test's output.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# CMake and Ninja come with the environment; a machine need not have them, nor make.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.setdefault("CMAKE_GENERATOR", "Ninja")

from ascend_ops.abi import load_library
from ascend_ops.build_record import read_build_record

# What the CPU must have for a build; x86-64 itself needs nothing.
NEEDED_FLAGS = {
    "x86-64-v3": {"avx2", "fma", "bmi1", "bmi2", "f16c"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


TORCH_ROOT = Path(__file__).resolve().parents[2] / "scripts/torch-root"


@pytest.fixture
def torch_root() -> Callable[[str], Path]:
    """Makes the root folder of a Debian release with PyTorch; skips where that cannot be done."""

    def make(release: str) -> Path:
        if not TORCH_ROOT.is_file():
            pytest.skip("scripts/torch-root is not here: this needs the whole repository")
        if os.getuid() != 0 or shutil.which("debootstrap") is None:
            pytest.skip("a root folder of Debian needs root and debootstrap")
        command = [str(TORCH_ROOT), release]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    return make


def runnable_variants() -> list[str]:
    """The builds of the kernels that this CPU can run."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        words = set(file.read().split())
    variants = read_build_record().variants
    return [name for name in variants if NEEDED_FLAGS.get(name, set()) <= words]


@pytest.fixture(params=runnable_variants())
def variant(request: pytest.FixtureRequest) -> str:
    """Each build in turn."""
    name: str = request.param
    assert load_library(name).variant == name
    return name
