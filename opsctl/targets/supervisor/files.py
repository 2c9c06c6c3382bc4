"""Files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, durable: bool = False, mode: int = 0o600) -> None:
    """Replace a file in one go. `durable`: it also survives a power cut. Raises OSError."""
    part = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w") as output:
            output.write(text)
            if durable:
                output.flush()
                os.fsync(descriptor)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
