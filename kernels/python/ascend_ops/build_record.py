"""What was compiled and against what: the record that CMake installs beside the libraries."""

import json
from dataclasses import dataclass
from pathlib import Path

from ascend_ops.errors import LibraryError

PACKAGE_DIR = Path(__file__).resolve().parent
REBUILD = "pip install --no-build-isolation --force-reinstall --no-deps <path to kernels/>"


@dataclass(frozen=True)
class BuildRecord:
    """The build's facts; `tensorflow_version` is empty when it was built without TensorFlow."""

    version: str
    compiler: str
    processor: str
    npu_arch: str
    variants: tuple[str, ...]
    operators: tuple[str, ...]
    tensorflow_version: str
    tensorflow_cxx11_abi: str


def read_build_record(directory: Path = PACKAGE_DIR) -> BuildRecord:
    """Reads `build_record.json`; LibraryError when this is a source tree that nobody built."""
    path = directory / "build_record.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts["variants"] = tuple(facts["variants"])
        facts["operators"] = tuple(facts["operators"])
        return BuildRecord(**facts)
    except FileNotFoundError as error:
        raise LibraryError(
            f"ascend_ops at {directory} has no compiled libraries: build_record.json is missing. "
            f"Build it: {REBUILD}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise LibraryError(f"{path} is unreadable ({error}). Build it again: {REBUILD}") from error


def find_library(name: str, directory: Path = PACKAGE_DIR) -> Path:
    """The path of lib<name>.so beside this package; LibraryError when it is not there."""
    path = directory / f"lib{name}.so"
    if not path.is_file():
        raise LibraryError(f"{path} is missing. Build it again: {REBUILD}")
    return path
