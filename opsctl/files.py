"""Files that are whole or not there: a reader sees the old content or the new one, never half."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, durable: bool = False, mode: int = 0o600) -> None:
    """Put `text` in place of `path`'s content; with `durable` it survives a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
