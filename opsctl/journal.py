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
from typing import Any

from opsctl.clock import Clock
from opsctl.errors import JournalBroken, OpsctlError, Superseded
from opsctl.model import Json, canonical_json
from opsctl.records import Reading, Record, Segment, broken, make_record
from opsctl.storage import Storage

FOLDER = "journal"

SYNCED_BY_THE_NEXT = ("passed",)
"""Kinds that need no sync of their own: nothing is acted on before the next record, and a step
whose result was lost is taken again."""

RESERVE = ".reserve"
RESERVE_BYTES = 256 * 1024
"""Disk kept back so that a rollout can still be undone and closed when the disk is full."""


class Journal:
    """The journal of one service in its storage.

    What was read once is remembered, so that an append reads only what others have added since.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self.storage = storage
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
        names = self.storage.names(FOLDER)
        return sorted(int(n[:-6]) for n in names if n.endswith(".jsonl") and n[:-6].isdigit())

    def read(self, number: int) -> Segment:
        """The records of one rollout. Raises JournalBroken when the chain has a gap."""
        reading, self._reading = self._reading, None
        if reading is None or reading.number != number:
            reading = Reading(number)
        content = self.storage.read(_path(number), reading.offset)
        if content and not reading.fits(content):
            reading = Reading(number)
            content = self.storage.read(_path(number))
        if content is None:
            return Segment(number, ())
        segment = reading.go_on(content)
        self._reading = reading
        return segment

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
                    raise broken(_path(number), record.seq, "it does not follow the last")
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
        self._write(_path(number), record, sync=kind not in SYNCED_BY_THE_NEXT)
        self._appended += 1
        if record.hash not in {known.hash for known in self.read(number).records}:
            raise superseded()
        self.epoch = record.epoch
        self.cost_s += time.perf_counter() - started
        _kill_point("after", self._appended)
        return record

    def set_aside(self, reason: str) -> None:
        """Move a broken journal out of the way; nothing is deleted."""
        self._reading = None
        self.storage.rename(FOLDER, f"{FOLDER}.broken-{int(self.clock.now())}-{os.getpid()}")

    def prune(self, keep: int) -> None:
        """Delete the files of all but the newest `keep` rollouts."""
        for number in self.numbers()[: -max(1, keep)]:
            self.storage.remove(_path(number))

    def reserve_space(self) -> None:
        """Hold back a little disk for the day when there is none."""
        if self.storage.reserve and RESERVE not in self.storage.names(FOLDER):
            self.storage.write(f"{FOLDER}/{RESERVE}", b"\0" * RESERVE_BYTES)

    def _next_epoch(self, tail: Record | None) -> int:
        """The first append of a process raises the epoch; later ones must find it unchanged."""
        current = tail.epoch if tail else 0
        if self.epoch == 0:
            return current + 1
        if current > self.epoch:
            raise superseded()
        return self.epoch

    def _write(self, path: str, record: Record, *, sync: bool) -> None:
        line = canonical_json(record.to_dict()).encode() + b"\n"
        try:
            self.storage.append(path, line, sync=sync)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise self._cannot_write(path, error) from error
            self.low_space = True
            self.storage.remove(f"{FOLDER}/{RESERVE}")
            try:
                self.storage.append(path, line, sync=sync)
            except OSError as second:
                raise self._cannot_write(path, second) from second

    def _cannot_write(self, path: str, error: OSError) -> OpsctlError:
        return OpsctlError(
            f"cannot write the journal {self.storage.label}/{path}",
            why=error.strerror or str(error),
            next_step="Free disk space or mend the folder's rights, then run: opsctl resume",
        )


def _path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.jsonl"


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
