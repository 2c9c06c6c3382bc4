"""Where the model is on disk, which version it has, and the hash of its content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ascend_serving.errors import ModelMissing

SAVED_MODEL_FILE = "saved_model.pb"
_CHUNK_BYTES = 1 << 20
# TensorFlow Serving's versions are positive 64-bit numbers; a bare SavedModel has none.
_DEFAULT_VERSION = 1


@dataclass(frozen=True)
class Artifact:
    """A model on disk.

    `requested` is the path as given; `path` is where it really is, with every link resolved, so
    that a link which moves later does not change what this process says that it serves.
    """

    requested: Path
    path: Path
    version: int

    @property
    def is_moved(self) -> bool:
        return self.requested.absolute() != self.path


def find_artifact(requested: Path) -> Artifact:
    """The model at `requested`: a SavedModel, an `.om` file, or a folder of numbered versions.

    The largest version is taken, as TensorFlow Serving does. Raises `ModelMissing`.
    """
    what = f"cannot serve {requested}"
    try:
        resolved = requested.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ModelMissing(
            what,
            f"there is nothing at this path ({type(error).__name__})",
            "Set --model-path to a SavedModel folder, then start again.",
        ) from error
    if _is_model(resolved):
        return Artifact(requested, resolved, _version_of(resolved.name) or _DEFAULT_VERSION)
    versions = [child for child in _children(resolved) if _version_of(child.name)]
    for folder in sorted(versions, key=lambda child: int(child.name), reverse=True):
        model = _find_in_version(folder)
        if model is not None:
            return Artifact(requested, model, int(folder.name))
    raise ModelMissing(
        what,
        f"{resolved} holds neither {SAVED_MODEL_FILE}, nor an .om file, nor a numbered version "
        "with one of them",
        "Export the model there (python -m ascend_serving.train --out DIR makes a sample), "
        "then start again.",
    )


def hash_artifact(path: Path) -> str:
    """`sha256:` and the hash of a model's content: the same bytes give the same hash anywhere.

    Hashed are, in order of relative path, each file's path, size and bytes; times, owners and
    modes are left out. Of an `.om` file the path is its name.
    """
    digest = hashlib.sha256()
    base = path if path.is_dir() else path.parent
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in sorted(files, key=lambda item: item.relative_to(base).as_posix()):
        name = file.relative_to(base).as_posix()
        digest.update(f"{name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _is_model(path: Path) -> bool:
    if path.is_file():
        return path.suffix == ".om"
    return (path / SAVED_MODEL_FILE).is_file()


def _find_in_version(folder: Path) -> Path | None:
    if _is_model(folder):
        return folder.resolve()
    compiled = sorted(child for child in _children(folder) if child.suffix == ".om")
    return compiled[0].resolve() if compiled else None


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _version_of(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() and int(name) > 0 else None
