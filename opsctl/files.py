"""Files that are whole or not there: a reader sees the old content or the new one, never half."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_atomically(
    path: Path, content: str | bytes, *, durable: bool = False, mode: int = 0o600
) -> None:
    """Replace a file in one go. `durable`: it also survives a power cut. Raises OSError.

    `path` has one writer at a time: opsctl's lock, or the supervisor, sees to that.
    """
    part = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as output:
            output.write(content.encode() if isinstance(content, str) else content)
            if durable:
                output.flush()
                os.fsync(descriptor)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and renamed entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
