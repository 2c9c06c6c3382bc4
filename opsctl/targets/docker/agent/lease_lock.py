"""The service's lock, kept by the agent: a lease that its holder renews.

A holder is gone when its line to the agent breaks, or when it has been silent for STALE_AFTER_S of
the agent's own monotonic clock. Whoever takes the lock gets a token; an older one is void.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from opsctl.files import write_atomically
from opsctl.model import Json

STALE_AFTER_S = 10.0
"""A holder renews each second; one that stands still for so long is frozen or cut off."""


class LeaseLock:
    """One lock. It survives the agent in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = 0
        self._holder: Json = {}
        self._line: object = None
        """The connection that the holder speaks on; None: not known (the agent is new)."""
        self._renewed = time.monotonic()
        with contextlib.suppress(OSError, ValueError, KeyError):
            kept = json.loads(path.read_text())
            self._token, self._holder = kept["token"], kept["holder"]

    def take(self, holder: Json, line: object) -> Json:
        """Take it when nobody holds it: `token`, or `held_by`."""
        if self._holder and not self._is_stale():
            return {"token": 0, "held_by": self._holder}
        self._token += 1
        self._holder, self._line, self._renewed = holder, line, time.monotonic()
        self._save()
        return {"token": self._token, "held_by": {}}

    def beat(self, token: int, line: object) -> bool:
        """Renew it; False when it was taken over, or given back."""
        if token != self._token:
            return False
        self._line, self._renewed = line, time.monotonic()
        return True

    def is_valid(self, token: int) -> bool:
        """Whether nobody took it over since."""
        return token == self._token

    def free(self, token: int) -> None:
        """Give it back."""
        if token == self._token:
            self._holder, self._line = {}, None
            self._save()

    def hung_up(self, line: object) -> None:
        """A connection ended: if it was the holder's, anybody may take the lock now."""
        if self._holder and self._line is line:
            self._renewed = float("-inf")

    def void(self) -> None:
        """Make it void, whoever holds it."""
        self._token += 1
        self._holder, self._line = {}, None
        self._save()

    @property
    def holder(self) -> Json:
        """Who holds it now; empty when nobody does."""
        return {} if self._is_stale() else self._holder

    def _is_stale(self) -> bool:
        return time.monotonic() - self._renewed >= STALE_AFTER_S

    def _save(self) -> None:
        # A full disk must not keep anybody from working; a new agent then only forgets it.
        with contextlib.suppress(OSError):
            text = json.dumps({"token": self._token, "holder": self._holder})
            write_atomically(self._path, text, durable=True)
