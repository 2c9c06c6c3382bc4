"""Finds the custom-op library that a SavedModel needs, without importing TensorFlow.

The library belongs to the package `ascend_ops`, which brings it beside its Python files. A
SavedModel names its ops, so the library is loaded only for a model that uses one of them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_serving.errors import OpLibraryError

_PACKAGE = "ascend_ops"
_FILE = "libascend_tensorflow.so"
_RECORD = "build_record.json"
_NPU = "npu"  # the variant that runs on a device; all others are emulations on the CPU
_INSTALL = "Install ascend-ops (pip install --no-build-isolation ./kernels)"
_PREFIXES = ("Ascend", "CustomFused")  # how the library's ops are named


@dataclass(frozen=True)
class OpLibrary:
    """A library file; `built_for` is the TensorFlow it was compiled against, "" if unknown."""

    path: Path
    op_backend: str
    built_for: str


def needs_op_library(ops: Iterable[str]) -> bool:
    """Whether a graph with these ops needs the library."""
    return any(op.startswith(_PREFIXES) for op in ops)


def find_op_library(given: Path | None) -> OpLibrary:
    """The library at `given`, or the one that the installed `ascend_ops` brings.

    Raises `OpLibraryError` when there is none.
    """
    path = given if given is not None else _package_folder() / _FILE
    if not path.is_file():
        raise OpLibraryError(
            f"cannot load the model's custom ops: {path} is missing",
            "the package is there but was never compiled, or --op-library is wrong",
            f"{_INSTALL} or correct --op-library.",
        )
    record = _read_record(path.parent / _RECORD)
    op_backend = "npu" if _NPU in record.get("variants", ()) else "cpusim"
    return OpLibrary(path.resolve(), op_backend, str(record.get("tensorflow_version", "")))


def _package_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise OpLibraryError(
            "cannot load the model's custom ops",
            f"the model uses ops of {_PACKAGE}, and that package is not installed",
            f"{_INSTALL}, or serve a model without custom ops.",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _read_record(path: Path) -> dict[str, Any]:
    """The facts of the build that lie beside the library; empty when there are none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise OpLibraryError(
            f"cannot read {path}", f"it is no JSON ({error})", f"{_INSTALL}, then start again."
        ) from error
    return record if isinstance(record, dict) else {}
