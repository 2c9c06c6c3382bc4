"""The holder's lease: renewed each second, on the monotonic clock, known to a new supervisor."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


class Lease:
    """When the holder was last heard of. Not fsynced: it means nothing after a reboot."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._renewed = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            written_boot, renewed = path.read_text().split()
            if written_boot == boot:
                # Monotonic time is the same for all processes of one boot (clock_gettime(2)).
                self._renewed = min(self._renewed, float(renewed))

    def renew(self) -> None:
        self._renewed = time.monotonic()
        with contextlib.suppress(OSError):
            self._path.write_text(f"{self._boot} {self._renewed}\n")

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._renewed
