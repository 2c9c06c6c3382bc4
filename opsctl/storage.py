"""Where the state of a service lies: with its target, behind a few durable verbs.

A folder of this machine for `local`, a volume of the Docker host for `docker`, objects of the
namespace for `kubernetes`. Journal, inbox, secrets and bundles are written through it, so any
machine that reaches the target can go on where another stopped.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opsctl.clock import Clock
from opsctl.model import Json


@dataclass(frozen=True)
class Content:
    """An entry's bytes from an offset on. Another `identity`: it is not the entry read before."""

    identity: str
    data: bytes
    size: int
    """Bytes of the whole entry."""


@dataclass(frozen=True)
class Holder:
    """Who holds the lock."""

    pid: int
    actor: str
    command: str
    since: float
    beat: int = 0
    start_ticks: int = 0
    """Start of the process in clock ticks since boot: a pid alone may be another's by now."""
    host: str = ""
    """The holder's machine, where the lock can be held from several."""

    def to_dict(self) -> Json:
        return dict(self.__dict__)

    @property
    def where(self) -> str:
        """The process, for people."""
        return f"pid {self.pid} on {self.host}" if self.host else f"pid {self.pid}"


class HeldLock(Protocol):
    """A lock that this process holds."""

    def beat(self) -> None:
        """Show that the holder is alive. Never raises: the target may be away for a moment."""

    def check(self) -> None:
        """Raise Superseded when another has taken it over."""

    def free(self) -> None:
        """Give it back."""


class Storage(Protocol):
    """Entries by path (`journal/000001.jsonl`) and one lock.

    Verbs raise OSError when an entry can't be read or written (errno ENOSPC, EDQUOT, EFBIG: no
    room), and TargetUnreachable when nobody answers.
    """

    label: str
    """Where this is, for messages."""
    reserve: bool
    """Whether room must be held back for the day when there is none."""

    def prepare(self) -> None:
        """Make it usable. Raises TargetUnreachable when it can't be written."""

    def exists(self) -> bool:
        """Whether anything was ever kept here."""

    def names(self, folder: str) -> list[str]:
        """Names of a folder's entries, sorted; empty when there is no such folder."""

    def read(self, path: str, offset: int = 0) -> Content | None:
        """An entry from `offset` on; None when there is none."""

    def contents(self, folder: str) -> dict[str, bytes]:
        """All entries of a folder by name, in one question; folders inside it are left out."""

    def append(self, path: str, line: bytes, *, sync: bool) -> None:
        """Append a whole line (it ends with a newline) as one; `sync`: durable when it returns.

        A torn line before it is closed off. Two writers' lines stand one after the other.
        """

    def write(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Replace an entry: the old content or the new one, durable. `secret`: its owner's only."""

    def remove(self, path: str) -> None:
        """Forget an entry, or a folder with all of its entries; nothing happens without one."""

    def rename(self, folder: str, name: str) -> None:
        """Move a folder aside under another name."""

    def fetch(self, folder: str) -> Path:
        """A folder's entries as files of this machine."""

    def destroy(self) -> None:
        """Remove everything. The lock goes with it."""

    def hold(self, holder: Holder, *, wait_s: float, clock: Clock) -> HeldLock:
        """Take the lock. Raises LockHeld when it isn't to be had within `wait_s`."""

    def holder(self) -> Holder | None:
        """Who holds the lock now; looking never takes it."""

    def break_lock(self) -> None:
        """Make the lock of a holder that no longer moves void."""


def copied(entries: Mapping[str, bytes], owner: object) -> Path:
    """Entries as files of a temporary folder, which goes when `owner` does."""
    import shutil  # bring compression along, which `opsctl status` has no time for
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="opsctl-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    for name, data in entries.items():
        (folder / name).write_bytes(data)
    return folder
