"""Log rotation by size. Replicas append to their file, so it is copied and emptied.

However fast a log grows, one rotation copies no more than twice its size limit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
STEP_BYTES = MIB
LINE_BYTES = 64 * 1024
"""How far a line's end is looked for where a log is cut."""

REMNANT_BYTES = 4 * MIB
"""What is kept, at most, of a log that is far over its size while the disk is full."""


@dataclass(frozen=True)
class LogLimit:
    """Size at which a log is rotated, and how many rotated ones stay."""

    max_mb: int
    keep: int

    @property
    def max_bytes(self) -> int:
        return self.max_mb * MIB


def rotate(path: Path, limit: LogLimit, given_up: Callable[[], bool] = bool) -> None:
    """`x.log` → `x.log.1` → … → `x.log.KEEP`; the file itself is emptied, never renamed.

    Of a log that is bigger than the limit its end is kept; a line tells how much is missing.
    Raises OSError when that can't be written, or as soon as `given_up` is true: nothing was
    changed then.
    """
    part = _part(path)
    with path.open("r+b", buffering=0) as log:
        size = os.fstat(log.fileno()).st_size
        start = _line_start(log.fileno(), size - limit.max_bytes)
        try:
            copy = part.open("wb", buffering=0)
            with copy:
                _note(copy.fileno(), start)
                copied = _copy(log.fileno(), copy.fileno(), (start, size), given_up)
                _shift(path, limit.keep)
                os.replace(part, _numbered(path, 1))
                _empty(log.fileno(), copy.fileno(), (copied, copied + limit.max_bytes))
        except OSError:
            part.unlink(missing_ok=True)
            raise


def shorten(path: Path, limit: LogLimit) -> None:
    """Keep the end alone of a log that can't be rotated, so that it does not fill the disk.

    The rotated ones stay as they are.
    """
    with path.open("r+b", buffering=0) as log, path.open("ab", buffering=0) as again:
        size = os.fstat(log.fileno()).st_size
        kept = os.pread(log.fileno(), *_end(size, min(REMNANT_BYTES, limit.max_bytes // 2)))
        log.truncate(0)
        with contextlib.suppress(OSError):
            _note(again.fileno(), size - len(kept))
            again.write(kept)


def clear_parts(folder: Path) -> None:
    """Remove what a rotation that was killed has left."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _end(size: int, count: int) -> tuple[int, int]:
    """Length and place of the last `count` bytes of `size`."""
    return min(size, count), max(0, size - count)


def _line_start(log: int, offset: int) -> int:
    """The first line's start from `offset` on; `offset` itself when the line is very long."""
    if offset <= 0:
        return 0
    found = os.pread(log, LINE_BYTES, offset).find(b"\n")
    return offset + found + 1


def _note(target: int, missing: int) -> None:
    if missing > 0:
        os.write(target, b"[opsctl: %d bytes before this are not kept]\n" % missing)


def _copy(log: int, target: int, span: tuple[int, int], given_up: Callable[[], bool]) -> int:
    """Copy the bytes of `span`; where the copy ends."""
    at, end = span
    while at < end and (data := os.pread(log, min(STEP_BYTES, end - at), at)):
        if given_up():
            raise InterruptedError("the rotation was given up")
        at += os.write(target, data)
    return at


def _shift(path: Path, keep: int) -> None:
    """Make room for a new `x.log.1`; what is over `keep` goes."""
    for old in path.parent.glob(f"{path.name}.*"):
        suffix = old.suffix.removeprefix(".")
        if suffix.isdigit() and int(suffix) > keep:
            old.unlink(missing_ok=True)
    for number in range(keep, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(_numbered(path, number - 1), _numbered(path, number))


def _empty(log: int, target: int, span: tuple[int, int]) -> None:
    """Copy what came meanwhile, and empty the log.

    Lines between the last copied byte and the emptying would be lost, so the copy goes on until
    nothing new came: with a writer as fast as the copy, until the end of `span`.
    """
    at, last = span
    # What a full disk takes now are the lines of an instant; two copies of a log are worse.
    with contextlib.suppress(OSError):
        while at < min(os.fstat(log).st_size, last):
            at = _copy(log, target, (at, min(os.fstat(log).st_size, last)), bool)
    missing = os.fstat(log).st_size - at
    os.ftruncate(log, 0)
    if missing > 0:
        with contextlib.suppress(OSError):
            os.write(target, b"\n[opsctl: %d bytes after this are not kept]\n" % missing)
