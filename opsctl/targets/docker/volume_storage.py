"""A service's state in a volume of the Docker host, reached through its agent."""

from __future__ import annotations

import base64
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from opsctl.clock import Clock
from opsctl.errors import LockHeld, OpsctlError, Superseded, TargetUnreachable
from opsctl.model import Json
from opsctl.storage import Content, HeldLock, Holder, copied
from opsctl.targets.docker.bring_up import AgentSetup
from opsctl.targets.docker.channel import Channel
from opsctl.targets.supervisor.wire import NobodyListens

POLL_S = 0.2
CALL_TIMEOUT_S = 60.0
"""A sync on a busy disk takes seconds."""


class VolumeStorage:
    """The state of one service. Making one touches nothing."""

    reserve = True

    def __init__(self, channel: Channel, setup: AgentSetup, label: str) -> None:
        self.label = label
        self._channel = channel
        self._setup = setup

    def prepare(self) -> None:
        """Bring the agent up, one of this version. Raises TargetUnreachable."""
        self._setup.ensure_running(newest=True)

    def exists(self) -> bool:
        """Whether the host has the service's volume."""
        return self._setup.exists()

    def names(self, folder: str) -> list[str]:
        """Names of a folder's entries, sorted."""
        answer = self._read_only("names", folder)
        return list(answer["names"]) if answer else []

    def read(self, path: str, offset: int = 0) -> Content | None:
        """An entry from `offset` on."""
        answer = self._read_only("read", path, offset=offset)
        if not answer or not answer["found"]:
            return None
        return Content(answer["identity"], base64.b64decode(answer["data"]), answer["size"])

    def contents(self, folder: str) -> dict[str, bytes]:
        """Entries of a folder by name."""
        answer = self._read_only("names", folder, contents=True)
        if answer is None:
            return {}
        if "contents" in answer:
            return {name: base64.b64decode(data) for name, data in answer["contents"].items()}
        # The agent is an older opsctl's: a look does not replace it.
        read = {name: self.read(f"{folder}/{name}") for name in answer["names"]}
        return {name: found.data for name, found in read.items() if found is not None}

    def append(self, path: str, line: bytes, *, sync: bool) -> None:
        """Append a line, durably when `sync`."""
        self._store("append", path=path, data=base64.b64encode(line).decode(), sync=sync)

    def write(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Replace an entry, durably."""
        self._store("write", path=path, data=base64.b64encode(data).decode(), secret=secret)

    def remove(self, path: str) -> None:
        """Forget an entry or a folder."""
        self._store("remove", path=path)

    def rename(self, folder: str, name: str) -> None:
        """Move a folder aside."""
        self._store("rename", path=folder, name=name)

    def fetch(self, folder: str) -> Path:
        """Copies of a folder's entries, in a temporary folder that goes with this object."""
        return copied(self.contents(folder), self)

    def destroy(self) -> None:
        """Remove everything that the host has of the service."""
        self._setup.remove_everything()

    def hold(self, holder: Holder, *, wait_s: float, clock: Clock) -> HeldLock:
        """Take the lease. Raises LockHeld when it isn't to be had within `wait_s`."""
        holder = replace(holder, host=socket.gethostname())
        deadline = clock.monotonic() + wait_s
        while True:
            answer = self._store("take", holder=holder.to_dict())
            if answer["token"]:
                return Lease(self, answer["token"])
            if clock.monotonic() >= deadline:
                raise _held_by(Holder(**answer["held_by"]))
            clock.sleep(POLL_S)

    def holder(self) -> Holder | None:
        """Who holds the lease now."""
        if not self.exists():
            return None
        found = self._store("holder")["holder"]
        return Holder(**found) if found else None

    def break_lock(self) -> None:
        """Make the lease void."""
        self._store("void")

    def ask(self, verb: str, token: int) -> Json:
        """One question about a lease."""
        return self._store(verb, token=token)

    def _read_only(self, verb: str, path: str, **more: Any) -> Json | None:
        """The answer; None where nothing was ever kept: a look must not create anything."""
        try:
            return self._store(verb, path=path, **more)
        except NobodyListens:
            if not self.exists():
                return None
        self._setup.ensure_running(newest=False)
        return self._store(verb, path=path, **more)

    def _store(self, verb: str, **more: Any) -> Json:
        request = {"call": "store", "verb": verb, **more}
        answer = self._channel.call(request, CALL_TIMEOUT_S)
        if "errno" in answer:
            raise OSError(
                answer["errno"], answer["why"] or os.strerror(answer["errno"]), self.label
            )
        return answer


class Lease:
    """A lease that this process holds."""

    def __init__(self, storage: VolumeStorage, token: int) -> None:
        self._storage = storage
        self._token = token

    def beat(self) -> None:
        """Renew it; a host that is away for a moment changes nothing."""
        try:
            self._storage.ask("beat", self._token)
        except (OpsctlError, OSError):
            return

    def check(self) -> None:
        """Raise Superseded when another has taken it over."""
        try:
            valid = self._storage.ask("check", self._token)["valid"]
        except TargetUnreachable:
            return  # the step that needs the host will notice
        if not valid:
            raise Superseded(
                "another opsctl took the lock over",
                why="this one stood still for too long",
                next_step="This command changed nothing since. See: opsctl status",
            )

    def free(self) -> None:
        """Give it back; without an answer it becomes free by itself."""
        try:
            self._storage.ask("free", self._token)
        except (OpsctlError, OSError):
            return


def _held_by(holder: Holder) -> LockHeld:
    who = f"{holder.where} ({holder.actor}, {holder.command})"
    return LockHeld(
        f"another opsctl works on this service: {who}",
        next_step="Wait for it with --lock-wait 600, or stop it with: opsctl abort",
    )
