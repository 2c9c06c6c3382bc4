"""A copy of some objects of the namespace, kept up to date by a watch: looking costs no request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.kubernetes.api import Api, Gone

WATCH_S = 30
"""The server ends a watch after that, and it is begun again where it was: a connection that died
without a word is not trusted for longer."""

RETRY_S = 0.5
PAGE = 500
STALE_S = 5.0
"""A watch that has been down so long: what is known may be old, so it is asked for anew."""


class Mirror:
    """Objects of one kind by name. The first look lists them, and a thread watches from then on."""

    def __init__(self, api: Api, path: str, selector: str) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._changed = threading.Condition()
        self._objects: dict[str, Json] = {}
        self._dead: set[str] = set()
        """Identities of objects that this process deleted: a late event must not revive them."""
        self._version = ""
        self._thread: threading.Thread | None = None
        self._down_since: float | None = None
        self._count = 0

    def begin(self) -> None:
        """List, and watch from then on. Raises TargetUnreachable."""
        self._require()

    def all(self) -> list[Json]:
        """All objects, by name. Raises TargetUnreachable when they can't be known."""
        self._require()
        with self._changed:
            return [self._objects[name] for name in sorted(self._objects)]

    def get(self, name: str) -> Json | None:
        """One object, None when there is none."""
        self._require()
        with self._changed:
            return self._objects.get(name)

    @property
    def count(self) -> int:
        """How many changes have come in: unequal numbers, other contents."""
        return self._count

    @property
    def is_blind(self) -> bool:
        """Whether the watch is down: what happens now is not seen."""
        return self._down_since is not None

    def refresh(self) -> None:
        """List again: afterwards all that was written before is known."""
        items: list[Json] = []
        query: dict[str, Any] = {"labelSelector": self._selector, "limit": PAGE}
        while True:
            page = self._api.get(self._path, **query)
            items += page["items"]
            more = page["metadata"].get("continue")
            if not more:
                break
            query["continue"] = more
        with self._changed:
            self._objects = {one["metadata"]["name"]: one for one in items if self._lives(one)}
            self._version = page["metadata"]["resourceVersion"]
            self._down_since = None
            self._tell()

    def put(self, written: Json) -> None:
        """Know an object that was just written, before the watch tells of it."""
        with self._changed:
            self._take(written)

    def drop(self, name: str) -> None:
        """Know that an object was just deleted."""
        with self._changed:
            gone = self._objects.pop(name, None)
            if gone:
                self._dead.add(gone["metadata"]["uid"])
                self._tell()

    def wait(self, holds: Callable[[Mapping[str, Json]], bool], timeout_s: float) -> bool:
        """Wait until something holds of the objects; False when it did not in time."""
        self._require()
        with self._changed:
            return self._changed.wait_for(lambda: holds(self._objects), timeout_s)

    def _require(self) -> None:
        """List when nothing is known yet, or when the watch has been down for long."""
        if self._thread is None:
            self.refresh()
            self._thread = threading.Thread(target=self._follow, name="mirror", daemon=True)
            self._thread.start()
        down = self._down_since
        if down is not None and time.monotonic() - down > STALE_S:
            self.refresh()

    def _follow(self) -> None:
        while True:
            try:
                for change in self._changes():
                    self._see(change)
                self._down_since = None
            except Gone:
                self._again()
            except TargetUnreachable:
                if self._down_since is None:
                    self._down_since = time.monotonic()
                time.sleep(RETRY_S)

    def _changes(self) -> Iterator[Json]:
        return self._api.watch(self._path, self._version, self._selector, WATCH_S)

    def _again(self) -> None:
        try:
            self.refresh()
        except TargetUnreachable:
            time.sleep(RETRY_S)

    def _see(self, change: Json) -> None:
        found = change["object"]
        with self._changed:
            self._version = found["metadata"]["resourceVersion"]
            self._down_since = None
            if change["type"] == "DELETED":
                self._objects.pop(found["metadata"]["name"], None)
                self._dead.discard(found["metadata"]["uid"])
                self._tell()
            elif change["type"] != "BOOKMARK":
                self._take(found)

    def _take(self, found: Json) -> None:
        """Keep an object unless a newer version of it is known."""
        known = self._objects.get(found["metadata"]["name"])
        same = known is not None and known["metadata"]["uid"] == found["metadata"]["uid"]
        if not self._lives(found) or (known and same and _age(known) > _age(found)):
            return
        self._objects[found["metadata"]["name"]] = found
        self._tell()

    def _lives(self, found: Json) -> bool:
        return found["metadata"]["uid"] not in self._dead

    def _tell(self) -> None:
        self._count += 1
        self._changed.notify_all()


def _age(found: Json) -> int:
    """Versions grow (Kubernetes 1.35 says so; etcd has always made them so)."""
    version = str(found["metadata"]["resourceVersion"])
    return int(version) if version.isdigit() else 0
