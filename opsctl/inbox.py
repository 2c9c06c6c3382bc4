"""Requests of others (abort, pause, approve, …): an append-only folder beside the journal.

Anybody may put one; only the holder of the lock takes them into the journal and then removes them.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opsctl.clock import Clock
from opsctl.model import Json

RequestKind = Literal["abort", "pause", "resume", "approve", "rollback", "guard", "supersede"]


@dataclass(frozen=True)
class Request:
    """What somebody asks the holder for. `id` makes it count once."""

    id: str
    request: RequestKind
    by: str
    reason: str = ""
    at: float = 0.0

    def to_dict(self) -> Json:
        return dict(self.__dict__)


class Inbox:
    """The inbox in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def put(self, request: RequestKind, *, by: str, reason: str, clock: Clock) -> Request:
        """Leave a request, durably and at once whole."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = clock.now()
        item = Request(f"{int(now * 1e6):016d}-{uuid.uuid4().hex[:8]}", request, by, reason, now)
        temporary = self.directory / f".{item.id}"
        with temporary.open("w") as file:
            json.dump(item.to_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.directory / f"{item.id}.json")
        return item

    def items(self) -> list[Request]:
        """Requests that wait, oldest first; what can't be read is left where it is."""
        try:
            names = sorted(n for n in os.listdir(self.directory) if n.endswith(".json"))
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            try:
                found.append(Request(**json.loads((self.directory / name).read_text())))
            except (OSError, ValueError, TypeError):
                continue
        return found

    def remove(self, request: Request) -> None:
        """Forget a request that stands in the journal."""
        (self.directory / f"{request.id}.json").unlink(missing_ok=True)
