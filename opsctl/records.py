"""Records of the journal: how they are made, read, and told from what doesn't count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsctl.errors import JournalBroken
from opsctl.model import Json, canonical_json
from opsctl.storage import Content

FORMAT = 1
"""Version of the records; a newer one is refused."""

GENESIS = "0" * 64
"""`prev` of the very first record."""


@dataclass(frozen=True)
class Record:
    """One line of the journal."""

    seq: int
    epoch: int
    time: float
    kind: str
    data: Json
    prev: str
    hash: str

    def to_dict(self) -> Json:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Segment:
    """What one file holds: the records that count, and what was found besides."""

    number: int
    records: tuple[Record, ...]
    void: int = 0
    """Lines of writers that came too late."""
    torn: bool = False
    """The last line is incomplete; it was never acted on."""

    @property
    def closed(self) -> bool:
        return bool(self.records) and self.records[-1].kind == "closed"


def make_record(
    tail: Record | None, epoch: int, now: float, kind: str, data: Mapping[str, Any]
) -> Record:
    """The record that follows `tail`; its data as a reader will see it (lists, text keys)."""
    data = json.loads(json.dumps(data))
    seq = tail.seq + 1 if tail else 1
    prev = tail.hash if tail else GENESIS
    body = {
        "seq": seq, "epoch": epoch, "time": now, "kind": kind, "data": data, "prev": prev
    }  # fmt: skip
    return Record(**body, hash=_hash(body))  # type: ignore[arg-type]


def parse_segment(number: int, content: bytes) -> Segment:
    """Records of a file's content that count. Raises JournalBroken when one was altered or cut."""
    reading = Reading(number)
    reading.add(content)
    return reading.segment()


class Reading:
    """A file's records as far as they were read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._identity = ""
        self.offset = 0
        """Bytes of complete lines that were read."""
        self._records: list[Record] = []
        self._known: set[str] = set()
        self._void = 0
        self._damaged = False
        self._rest = b""

    def fits(self, content: Content) -> bool:
        """Whether `content` goes on where this has stopped, and is no other file's or a cut one."""
        same = not self.offset or content.identity == self._identity
        return same and content.size >= self.offset

    def go_on(self, content: Content) -> Segment:
        """Take what is new."""
        self._identity = content.identity
        self.add(content.data)
        return self.segment()

    def add(self, content: bytes) -> None:
        """Take the lines of `content`; an incomplete last one is left for the next time."""
        complete, newline, self._rest = content.rpartition(b"\n")
        self.offset += len(complete) + len(newline)
        for line in complete.split(b"\n") if newline else ():
            self._take(line)

    def segment(self) -> Segment:
        """What counts so far. A last line without its newline was torn, unless it is whole."""
        whole = Reading(self.number)
        whole.__dict__.update(self.__dict__, _records=[*self._records], _known={*self._known})
        whole._take(self._rest)
        return Segment(self.number, tuple(whole._records), whole._void, torn=whole._damaged)

    def _take(self, line: bytes) -> None:
        if not line.strip(b"\0 "):
            return
        record = _parse_line(line)
        if record is None:
            self._damaged = True
            return
        first = not self._records and record.kind == "opened"
        if first or (self._records and record.prev == self._records[-1].hash):
            self._records.append(record)
            self._known |= {record.prev, record.hash}
            self._damaged = False
        elif record.prev in self._known:
            self._void += 1
        else:
            raise broken(f"{self.number:06d}.jsonl", record.seq, "the record before it is damaged")


def _parse_line(line: bytes) -> Record | None:
    """The record of a line; None when the line is torn or altered."""
    try:
        data = json.loads(line)
        stated = data.pop("hash")
        if stated != _hash(data):
            return None
        record = Record(**data, hash=stated)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if record.data.get("format", FORMAT) > FORMAT:
        raise JournalBroken(
            f"the journal has format {record.data['format']}",
            why=f"this opsctl knows formats up to {FORMAT}",
            next_step="Use the opsctl that wrote it, or a newer one.",
        )
    return record


def _hash(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()


def broken(name: str, seq: int, why: str) -> JournalBroken:
    return JournalBroken(
        f"the journal {name} is damaged at record {seq}",
        why=why,
        next_step="Run: opsctl resume (it rebuilds the journal from what runs)",
    )
