"""The lock of a service: a Lease that its holder renews each second.

Nobody's wall clock decides. Who wants the Lease watches whether it is renewed, on a monotonic clock
of its own; one that stood still for STALE_AFTER_S is taken, by a write that only succeeds when it
still is what was seen. A holder that died on this very machine is passed at once.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

from opsctl.clock import Clock
from opsctl.errors import LockHeld, Superseded, TargetUnreachable
from opsctl.model import Json
from opsctl.storage import Holder
from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.names import Names

STALE_AFTER_S = 10.0
"""A Lease that stands still this long belongs to a holder that is dead, frozen or cut off."""

ALIVE_S = 2.5
"""Within so long a living holder has renewed it, also on a busy machine."""

POLL_S = 0.2
HOLDER = "opsctl/holder"
MACHINE = "opsctl/machine"
"""Annotation: where the holder's pid counts."""
LOCK_PART = "lock"


def read(api: Api, names: Names) -> Json | None:
    """The Lease, None when there is none."""
    try:
        return api.get(names.path("leases", names.lock))
    except Missing:
        return None


def holder_of(found: Json | None) -> Holder | None:
    """Who holds a Lease; None for a free one, and for one whose holder died on this machine."""
    if found is None or not found["spec"].get("holderIdentity"):
        return None
    annotations = found["metadata"].get("annotations", {})
    try:
        holder = Holder(**json.loads(annotations[HOLDER]))
    except (KeyError, ValueError, TypeError):
        return Holder(0, found["spec"]["holderIdentity"], "", 0.0)
    here = annotations.get(MACHINE) == _machine()
    return None if here and _start_ticks(holder.pid) != holder.start_ticks else holder


class Watcher:
    """Whether a Lease still moves, for one who looks at it from time to time."""

    def __init__(self) -> None:
        self._mark: object = None
        self._since = 0.0

    def holder(self, found: Json | None, now: float) -> Holder | None:
        """The holder; None when it has not moved for STALE_AFTER_S."""
        holder = holder_of(found)
        mark = found["metadata"]["resourceVersion"] if found and holder else None
        if mark != self._mark:
            self._mark, self._since = mark, now
        return holder if now - self._since < STALE_AFTER_S else None


def take(api: Api, names: Names, holder: Holder, *, wait_s: float, clock: Clock) -> HeldLease:
    """Take the Lease, wait for it, or take it over from a holder that stands still.

    A holder that moves is only waited for within `wait_s`. Raises LockHeld.
    """
    holder = replace(holder, host=socket.gethostname(), start_ticks=_start_ticks(holder.pid))
    watcher = Watcher()
    begin = clock.monotonic()
    first: str | None = None
    while True:
        found = read(api, names)
        now = clock.monotonic()
        current = watcher.holder(found, now)
        if current is None:
            with contextlib.suppress(Conflict):
                return HeldLease(api, names, _written(api, names, found, holder))
            continue
        assert found is not None
        version = found["metadata"]["resourceVersion"]
        first = first or version
        if now - begin >= wait_s and version != first:
            raise _held_by(current)
        clock.sleep(POLL_S)


def break_it(api: Api, names: Names) -> None:
    """Take the Lease from whoever holds it, and give it back."""
    found = read(api, names)
    if found is not None:
        found["spec"].update(holderIdentity="", renewTime=None)
        with contextlib.suppress(Conflict):
            api.put(names.path("leases", names.lock), found)


class HeldLease:
    """A Lease that this process holds."""

    def __init__(self, api: Api, names: Names, written: Json) -> None:
        self._api = api
        self._path = names.path("leases", names.lock)
        self._lease = written
        self._identity = written["spec"]["holderIdentity"]
        self._lock = threading.Lock()
        self._lost = False
        self._renewed = time.monotonic()

    def beat(self) -> None:
        """Renew it. An API server that is away for a moment changes nothing."""
        with self._lock, contextlib.suppress(TargetUnreachable):
            if not self._lost:
                self._renew()

    def check(self) -> None:
        """Raise Superseded when another has taken it over; no request, as long as it is fresh."""
        if time.monotonic() - self._renewed > STALE_AFTER_S / 2:
            self.beat()  # this process may just have woken up
        if self._lost:
            raise Superseded(
                "another opsctl took the lock over",
                why="this one stood still for too long",
                next_step="This command changed nothing since. See: opsctl status",
            )

    def free(self) -> None:
        """Give it back; without an answer it becomes free by itself."""
        with self._lock, contextlib.suppress(TargetUnreachable):
            if not self._lost:
                self._lease["spec"].update(holderIdentity="", renewTime=None)
                self._api.put(self._path, self._lease)
                self._lost = True

    def _renew(self) -> None:
        self._lease["spec"]["renewTime"] = _now()
        try:
            self._lease = self._api.put(self._path, self._lease)
        except (Conflict, Missing):
            self._look_again()
        self._renewed = time.monotonic()

    def _look_again(self) -> None:
        """Our own write whose answer was lost looks like another's."""
        try:
            found = self._api.get(self._path)
        except Missing:
            self._lost = True
            return
        self._lost = found["spec"].get("holderIdentity") != self._identity
        self._lease = found


def _written(api: Api, names: Names, found: Json | None, holder: Holder) -> Json:
    """The Lease with us as its holder. Raises Conflict when another was faster."""
    spec = {
        "holderIdentity": f"{holder.host}-{holder.pid}-{secrets.token_hex(4)}",
        "leaseDurationSeconds": int(STALE_AFTER_S),
        "acquireTime": _now(),
        "renewTime": _now(),
        "leaseTransitions": (found["spec"].get("leaseTransitions") or 0) + 1 if found else 0,
    }
    metadata = {
        "name": names.lock,
        "namespace": names.namespace,
        "labels": names.labels(LOCK_PART),
        "annotations": {HOLDER: json.dumps(holder.to_dict()), MACHINE: _machine()},
    }
    body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                  "metadata": metadata, "spec": spec}  # fmt: skip
    if found is None:
        return api.post(names.path("leases"), body)
    metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
    return api.put(names.path("leases", names.lock), body)


def _now() -> str:
    """For people and other tools that look at the Lease; nothing here compares it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _machine() -> str:
    """This boot of this machine, and its space of process ids (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return secrets.token_hex(8)  # like no other: nobody is taken for dead


def _start_ticks(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat (proc(5)); 0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _held_by(holder: Holder) -> LockHeld:
    who = f"{holder.where} ({holder.actor}, {holder.command})"
    return LockHeld(
        f"another opsctl works on this service: {who}",
        next_step="Wait for it with --lock-wait 600, or stop it with: opsctl abort",
    )
