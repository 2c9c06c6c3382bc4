"""Building the operator library with a user's own operators: by CMake, from the wheel's sources.

Neither CANN nor TensorFlow is needed; a C++ compiler and CMake are.
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ascend_ops.build_record import PACKAGE_DIR, BuildRecord, read_build_record
from ascend_ops.errors import BuildError, InvalidInputError

SOURCE: Final = PACKAGE_DIR / "source"
NPU_ARCHS: Final = ("1001", "2002", "2201", "3510")
# What the build makes itself; the Python files beside it come from this package.
BUILT: Final = ("lib*", "source", "cases", "build_record.json", "__pycache__")
JOBS: Final = "-j2"  # a compiler takes up to 1 GB
TAIL_LINES: Final = 25


@dataclass(frozen=True)
class BuildSettings:
    """What to build and where: `tree` is CMake's, and the package is made in `output`."""

    operators: tuple[Path, ...]
    tree: Path
    output: Path
    source: Path = SOURCE
    tensorflow: str = "AUTO"
    npu_arch: str = "2201"


@dataclass(frozen=True)
class Built:
    """A package `ascend_ops` that was built, and how long it took."""

    package: Path
    record: BuildRecord
    seconds: float


def build(settings: BuildSettings) -> Built:
    """Builds the whole library; only what changed is compiled again. The compiler speaks on stderr.

    InvalidInputError when sources are missing, BuildError with the compiler's last lines.
    """
    start = time.monotonic()
    if not (settings.source / "CMakeLists.txt").is_file():
        raise InvalidInputError(
            f"{settings.source} has no sources of ascend-ops (CMakeLists.txt is missing). "
            "Name the folder that has: --source DIR"
        )
    _check_output(settings.output / PACKAGE_DIR.name)
    cmake = find_tool("cmake")
    definitions = [
        f"-DASCEND_TENSORFLOW={settings.tensorflow}",
        f"-DASCEND_NPU_ARCH={settings.npu_arch}",
        f"-DASCEND_EXTRA_OPERATORS={';'.join(map(str, settings.operators))}",
    ]
    if settings.tensorflow != "OFF":
        definitions.append(f"-DPython_EXECUTABLE={sys.executable}")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}"]
    configure = [cmake, "-S", str(settings.source), "-B", str(settings.tree)]
    _run([*configure, *generator, *definitions], "configure")
    _run([cmake, "--build", str(settings.tree), JOBS], "compile")
    package = _install(cmake, settings)
    return Built(package, read_build_record(package), time.monotonic() - start)


def find_tool(name: str) -> str:
    """The path of a program beside this interpreter or in the search path; BuildError if neither.

    Wheels put cmake and ninja beside the interpreter, which need not be in the search path.
    """
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if found is None:
        raise BuildError(f"building operators needs {name}. Install it: pip install {name}")
    return found


def _check_output(package: Path) -> None:
    """Only what this command built is ever replaced."""
    if package == PACKAGE_DIR:
        raise InvalidInputError(
            f"{package} is the package that runs; choose another place: --install DIR"
        )
    if package.exists() and not (package / "build_record.json").is_file():
        raise InvalidInputError(
            f"{package} is there already and was not built by this command; choose "
            "another place: --install DIR"
        )


def _install(cmake: str, settings: BuildSettings) -> Path:
    package = settings.output / PACKAGE_DIR.name
    try:
        shutil.rmtree(package, ignore_errors=True)  # also libraries that are no longer built
        shutil.copytree(PACKAGE_DIR, package, ignore=shutil.ignore_patterns(*BUILT))
    except OSError as error:
        raise InvalidInputError(
            f"cannot write {error.filename or package}: {error.strerror or error}. "
            "Choose another place: --install DIR"
        ) from error
    _run([cmake, "--install", str(settings.tree), "--prefix", str(settings.output)], "install")
    return package


def _run(command: list[str], step: str) -> None:
    """Runs one step; its output goes to stderr as it comes, and its end into the error."""
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            lines = [*lines[1 - TAIL_LINES :], line]
    if process.returncode == 0:
        return
    raise BuildError(
        f"cannot {step} the operators (exit code {process.returncode}):\n{''.join(lines).rstrip()}"
        "\nCorrect the first error above, then run the command again"
    )
