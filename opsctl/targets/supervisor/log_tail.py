"""The end of a log file."""

from __future__ import annotations

import os
from pathlib import Path

TAIL_BYTES = 16 * 1024
REASON_LINES = 5
REASON_CHARS = 600


def last_lines(path: Path, start: int = 0) -> str:
    """The last few lines after byte `start`, on one line; empty when there are none."""
    try:
        with path.open("rb") as log:
            end = os.fstat(log.fileno()).st_size
            log.seek(max(start if start <= end else 0, end - TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-REASON_LINES:])[-REASON_CHARS:]
