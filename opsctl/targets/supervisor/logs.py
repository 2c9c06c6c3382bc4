"""Reading replicas' logs, across rotation."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsctl.targets.supervisor.layout import Layout

FOLLOW_POLL_S = 0.2
BLOCK_BYTES = 64 * 1024


@dataclass
class _Followed:
    name: str
    path: Path
    position: int
    rest: bytes = b""

    def new_lines(self) -> Iterator[str]:
        """Whole lines that were added since."""
        size = self.path.stat().st_size
        if size < self.position:
            self.position, self.rest = 0, b""  # it was rotated
        with self.path.open("rb") as log:
            log.seek(self.position)
            data = self.rest + log.read(size - self.position)
        self.position = size
        *whole, self.rest = data.split(b"\n")
        for line in whole:
            yield f"{self.name} {line.decode(errors='replace')}"


def read(layout: Layout, release: str, *, lines: int, follow: bool) -> Iterator[str]:
    """The last `lines` lines of each replica of a release, then, with `follow`, new ones."""
    followed: dict[Path, _Followed] = {}
    for path in _logs(layout, release):
        size = path.stat().st_size
        followed[path] = _Followed(path.stem, path, size)
        for line in _last(path, size, lines):
            yield f"{path.stem} {line}"
    while follow:
        for path in _logs(layout, release):
            followed.setdefault(path, _Followed(path.stem, path, 0))
        for one in followed.values():
            if one.path.exists():
                yield from one.new_lines()
        time.sleep(FOLLOW_POLL_S)


def _logs(layout: Layout, release: str) -> list[Path]:
    pattern = re.compile(re.escape(release) + r"-b?(\d+)\.log")
    found = [(match, path) for path in layout.logs.glob(f"{release}-*.log")
             if (match := pattern.fullmatch(path.name))]  # fmt: skip
    return [path for match, path in sorted(found, key=lambda pair: (pair[1].stem, int(pair[0][1])))]


def _last(path: Path, size: int, count: int) -> list[str]:
    """The last `count` lines before byte `size`, from the rotated file too when that is short."""
    found = _tail(path, size, count)
    older = path.with_name(f"{path.name}.1")
    if len(found) < count and older.exists():
        found = _tail(older, older.stat().st_size, count - len(found)) + found
    return found


def _tail(path: Path, size: int, count: int) -> list[str]:
    if count <= 0:
        return []
    data = b""
    with path.open("rb") as log:
        start = size
        while start > 0 and data.count(b"\n") <= count:
            step = min(BLOCK_BYTES, start)
            start -= step
            log.seek(start)
            data = log.read(step) + data
    return [line.decode(errors="replace") for line in data.split(b"\n") if line][-count:]
