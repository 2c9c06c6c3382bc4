"""Requests of others (abort, pause, approve, …): an append-only folder beside the journal.

Anybody may put one; only the holder of the lock takes them into the journal and then removes them.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Literal

from opsctl.clock import Clock
from opsctl.model import Json
from opsctl.storage import Storage

FOLDER = "inbox"

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
    """The inbox of one service in its storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def put(self, request: RequestKind, *, by: str, reason: str, clock: Clock) -> Request:
        """Leave a request, durably and at once whole."""
        now = clock.now()
        item = Request(f"{int(now * 1e6):016d}-{os.urandom(4).hex()}", request, by, reason, now)
        self._storage.write(_path(item), json.dumps(item.to_dict()).encode())
        return item

    def items(self) -> list[Request]:
        """Requests that wait, oldest first; what can't be read is left where it is."""
        found = []
        for name in self._storage.names(FOLDER):
            if not name.startswith(".") and name.endswith(".json"):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    content = self._storage.read(f"{FOLDER}/{name}")
                    if content:
                        found.append(Request(**json.loads(content.data)))
        return found

    def remove(self, request: Request) -> None:
        """Forget a request that stands in the journal."""
        self._storage.remove(_path(request))


def _path(request: Request) -> str:
    return f"{FOLDER}/{request.id}.json"
