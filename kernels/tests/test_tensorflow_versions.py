"""The TensorFlow library compiles and links against the older TensorFlows that NPU images use.

Their wheels are for other Pythons, so they are downloaded and unpacked for headers and library.
Nothing is run: that needs such a Python.
"""

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from ascend_ops.build_record import PACKAGE_DIR

KERNELS = Path(__file__).resolve().parent.parent
SOURCES = sorted((KERNELS / "tensorflow").glob("*.cc"))


@dataclass(frozen=True)
class Release:
    """A TensorFlow wheel; both have the old C++ ABI, and headers that need C++14."""

    version: str
    python: str


RELEASES = [Release("2.6.5", "38"), Release("2.8.0", "39")]


def unpack(release: Release, folder: Path) -> Path:
    """The directory of the unpacked package `tensorflow`; skips when the wheel cannot be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    command += [str(folder), "--only-binary=:all:", "--python-version", release.python]
    command += ["--implementation", "cp", "--abi", f"cp{release.python}"]
    command += ["--platform", "manylinux2010_x86_64", f"tensorflow-cpu=={release.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no wheel of TensorFlow {release.version}: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wanted = ("tensorflow/include/", "tensorflow/libtensorflow_framework")
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(wanted)])
    return folder / "tensorflow"


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_the_library_builds_for_an_older_tensorflow(release: Release, tmp_path: Path) -> None:
    root = unpack(release, tmp_path)
    flags = ["-std=c++14", "-O1", "-fPIC", "-shared", "-D_GLIBCXX_USE_CXX11_ABI=0"]
    include = ["-isystem", str(root / "include"), f"-I{KERNELS / 'runtime'}"]
    command = ["g++", *flags, "-Wl,--no-undefined", *include, *map(str, SOURCES)]
    command += [str(next(root.glob("libtensorflow_framework.so*"))), f"-L{PACKAGE_DIR}"]
    command += ["-lascend_ops", "-o", str(tmp_path / "libascend_tensorflow.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
