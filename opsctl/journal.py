"""The record of every step, written and synced before acting.

One file of JSON lines a rollout (`000001.jsonl`, …), one hash chain over all of them. An append is
a compare-and-swap without locks: a line counts only when its `prev` is the hash of the last line
that counted, and the order within the file decides who was first. So the late line of a writer that
was frozen while another took over is void for every reader, its writer included.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opsctl.clock import Clock
from opsctl.errors import JournalBroken, OpsctlError, Superseded
from opsctl.files import sync_folder
from opsctl.model import Json, canonical_json
from opsctl.records import Reading, Record, Segment, broken, make_record

SYNCED_BY_THE_NEXT = ("passed",)
"""Kinds that need no sync of their own: nothing is acted on before the next record, and a step
whose result was lost is taken again."""

RESERVE_BYTES = 256 * 1024
"""Disk kept back so that a rollout can still be undone and closed when the disk is full."""


class Journal:
    """The journal of one service in `directory`.

    What was read once is remembered, so that an append reads only what others have added since.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory = directory
        self.clock = clock
        self.epoch = 0
        """The epoch that this process writes with; 0 until it has taken charge."""
        self.low_space = False
        """The disk was full and the reserve had to be used."""
        self.cost_s = 0.0
        """Time spent in appends, for the report."""
        self.clean: Callable[[Json], Json] = dict
        """Applied to all data before it is written: takes secrets out."""
        self._appended = 0
        self._reading: Reading | None = None

    def numbers(self) -> list[int]:
        """Numbers of all rollouts, oldest first."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(n[:-6]) for n in names if n.endswith(".jsonl") and n[:-6].isdigit())

    def read(self, number: int) -> Segment:
        """The records of one rollout. Raises JournalBroken when the chain has a gap."""
        reading = self._reading
        if (
            reading is None
            or reading.number != number
            or not reading.still_fits(self._path(number))
        ):
            reading = Reading(number)
            self._reading = reading
        try:
            return reading.go_on(self._path(number))
        except JournalBroken:
            self._reading = None
            raise

    def last(self) -> Segment:
        """The newest rollout that has a record; number 0 and empty when there is none."""
        for number in reversed(self.numbers()):
            segment = self.read(number)
            if segment.records:
                return segment
        return Segment(0, ())

    def all(self) -> Iterator[Segment]:
        """Every rollout, oldest first; broken ones are left out."""
        for number in self.numbers():
            try:
                segment = self.read(number)
            except JournalBroken:
                continue
            if segment.records:
                yield segment

    def verify(self) -> None:
        """Check the chain across all files. Raises JournalBroken where it has a gap."""
        tail: Record | None = None
        for number in self.numbers():
            for record in self.read(number).records:
                if tail and record.prev != tail.hash:
                    raise broken(self._path(number), record.seq, "it does not follow the last")
                tail = record

    def append(self, kind: str, data: Mapping[str, Any]) -> Record:
        """Append to the open rollout (`opened`: to a new one), on disk before it is acted on.

        Raises Superseded when another writer was first: nothing may be acted on then.
        """
        started = time.perf_counter()
        segment = self.last()
        tail = segment.records[-1] if segment.records else None
        body = self.clean(dict(data))
        record = make_record(tail, self._next_epoch(tail), self.clock.now(), kind, body)
        number = segment.number + 1 if kind == "opened" else segment.number
        _kill_point("before", self._appended + 1)
        self._write(self._path(number), record, sync=kind not in SYNCED_BY_THE_NEXT)
        self._appended += 1
        if record.hash not in {known.hash for known in self.read(number).records}:
            raise superseded()
        self.epoch = record.epoch
        self.cost_s += time.perf_counter() - started
        _kill_point("after", self._appended)
        return record

    def set_aside(self, reason: str) -> None:
        """Move a broken journal out of the way; nothing is deleted."""
        stamp = f"{int(self.clock.now())}-{os.getpid()}"
        self.directory.rename(self.directory.with_name(f"{self.directory.name}.broken-{stamp}"))
        self.directory.mkdir(mode=0o700)

    def prune(self, keep: int) -> None:
        """Delete the files of all but the newest `keep` rollouts."""
        for number in self.numbers()[: -max(1, keep)]:
            self._path(number).unlink(missing_ok=True)

    def reserve_space(self) -> None:
        """Hold back a little disk for the day when there is none."""
        path = self._reserve
        if not path.exists():
            path.write_bytes(b"\0" * RESERVE_BYTES)

    @property
    def _reserve(self) -> Path:
        return self.directory / ".reserve"

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:06d}.jsonl"

    def _next_epoch(self, tail: Record | None) -> int:
        """The first append of a process raises the epoch; later ones must find it unchanged."""
        current = tail.epoch if tail else 0
        if self.epoch == 0:
            return current + 1
        if current > self.epoch:
            raise superseded()
        return self.epoch

    def _write(self, path: Path, record: Record, *, sync: bool) -> None:
        line = canonical_json(record.to_dict()).encode() + b"\n"
        try:
            _append_line(path, line, sync=sync)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise _cannot_write(path, error) from error
            self.low_space = True
            self._reserve.unlink(missing_ok=True)
            try:
                _append_line(path, line, sync=sync)
            except OSError as second:
                raise _cannot_write(path, second) from second


def _append_line(path: Path, line: bytes, *, sync: bool) -> None:
    """Append in one write and sync; a torn line before it is closed off first."""
    fresh = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" + line if torn else line
        written = os.write(descriptor, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if fresh:
        sync_folder(path.parent)


def _kill_point(side: str, count: int) -> None:
    """End this process around its `count`-th record when OPSCTL_KILL_AT says so (kill tests)."""
    wanted = os.environ.get("OPSCTL_KILL_AT", "")
    if wanted.split(":")[:2] == [side, str(count)]:
        name = wanted.split(":")[2] if wanted.count(":") > 1 else "KILL"
        os.kill(os.getpid(), signal.Signals[f"SIG{name}"])


def superseded() -> Superseded:
    """The error of a writer that is no longer in charge."""
    return Superseded(
        "another opsctl took charge of this service",
        why="its epoch is newer than this command's",
        next_step="This command changed nothing since. See: opsctl status",
    )


def _cannot_write(path: Path, error: OSError) -> OpsctlError:
    return OpsctlError(
        f"cannot write the journal {path}",
        why=error.strerror or str(error),
        next_step="Free disk space or mend the folder's rights, then run: opsctl resume",
    )
