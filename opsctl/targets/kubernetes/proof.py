"""Proof at the front door that traffic goes where it was sent.

A Gateway says that it has taken a route in before its data plane has it, and kube-proxy says
nothing at all: on a busy machine both were seen to be seconds late. What lost the traffic must not
end before that. Each probe is a connection of its own, as kept-alive ones stay where they are.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable, Collection, Mapping, Sequence

from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint

STREAK = 8
"""Answers in a row, none of which comes from a release without traffic."""

MUTE_MAX = 3
"""A front door that this machine can't reach so often is not asked again."""

TIMEOUT_S = 1.0
HEADER = "X-Opsctl-Release"
SERVER_ERROR = 500

NAMELESS = ""
"""An answer that does not say which release gave it."""


class Proof:
    """What one process knows of the way from the front door to the releases."""

    def __init__(self, door: Callable[[], Endpoint], hostnames: Sequence[str] = ()) -> None:
        self._door = door
        self._host = hostnames[0].replace("*", "opsctl") if hostnames else None
        """What users call the service, where its route is for them only."""
        self._names = False
        """Whether answers tell their release at all."""
        self._proved = False
        self._wanted: Mapping[str, int] | None = None
        self._seen: set[str] = set()
        self._streak = 0
        self._mute = 0

    def holds(self, weights: Mapping[str, int], silent: Collection[str] = ()) -> bool:
        """Whether the front door answers as `weights` say; asks it unless that is known, and again
        as long as the answers are right.

        Of those that are `silent` answers need not tell the release. Where nobody can tell (no
        address, no way there, answers without a name) it holds.
        """
        if not weights or self._mute >= MUTE_MAX:
            return True
        if weights != self._wanted:
            self.forget()
            self._wanted = dict(weights)
        for _ in range(STREAK):
            if self._proved or not self._ask(weights, silent):
                break
        return self._proved or self._mute >= MUTE_MAX

    def _ask(self, weights: Mapping[str, int], silent: Collection[str]) -> bool:
        """Ask once; whether the answer was as it should be, so that it is worth to go on."""
        try:
            answer = _answered(self._door(), self._host)
        except (TargetUnreachable, OSError, http.client.HTTPException):
            self._mute += 1
            return False
        self._mute = 0
        self._note(answer, weights, bool(silent))
        named = self._seen >= weights.keys() - set(silent) or self._seen == {NAMELESS}
        self._proved = self._streak >= STREAK and named
        return self._streak > 0

    def forget(self) -> None:
        """What was proved is so no more: traffic goes elsewhere now."""
        self._wanted, self._proved = None, False
        self._seen, self._streak = set(), 0

    def _note(self, release: str | None, weights: Mapping[str, int], some_silent: bool) -> None:
        """Count one answer; None is one of the door itself, which has nowhere to send to."""
        self._names = self._names or bool(release)
        may_be_silent = some_silent or not self._names
        known = release in weights or (release == NAMELESS and may_be_silent)
        if release is None or not known:
            self._streak = 0
            return
        self._streak += 1
        self._seen.add(release)


def _answered(door: Endpoint, host: str | None) -> str | None:
    """The release that answers `GET /`, whatever it says; None when none does."""
    connection = http.client.HTTPConnection(door.host, door.port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        named = {"Host": host} if host else {}
        connection.request("GET", "/", headers={"Connection": "close", **named})
        answer = connection.getresponse()
        release = answer.headers.get(HEADER)
        if release is None and answer.status >= SERVER_ERROR:
            return None
        return release or NAMELESS
