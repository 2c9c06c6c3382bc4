"""Log rotation by size. Replicas append to their file, so it is copied and emptied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MIB = 1024 * 1024


def rotate_all(folder: Path, max_mb: int, keep: int) -> None:
    """Rotate each log of the folder that has reached `max_mb` MiB; `keep` old ones stay."""
    for path in [*folder.glob("*.log"), *folder.glob("*.jsonl")]:
        if path.stat().st_size >= max_mb * MIB:
            rotate(path, keep)


def rotate(path: Path, keep: int) -> None:
    """`x.log` → `x.log.1` → … → `x.log.KEEP`; the file itself is emptied, never renamed.

    Lines written between the last copied byte and the emptying would be lost, so the copy goes
    on until nothing new came.
    """
    for number in range(keep, 1, -1):
        older = path.with_name(f"{path.name}.{number - 1}")
        if older.exists():
            os.replace(older, path.with_name(f"{path.name}.{number}"))
    copy = path.with_name(f"{path.name}.1")
    with path.open("r+b") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target, MIB)
        while more := source.read(MIB):
            target.write(more)
        source.truncate(0)
