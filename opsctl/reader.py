"""Looking at a service without being in charge of it; light, as `opsctl status` imports it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opsctl.clock import Clock, SystemClock
from opsctl.config.settings import Project
from opsctl.errors import JournalBroken, TargetUnreachable
from opsctl.inbox import Inbox
from opsctl.journal import Journal
from opsctl.model import DesiredState, Observed
from opsctl.rollout import Progress, ReleaseMarks, fold, release_marks
from opsctl.storage import Storage
from opsctl.targets.places import Place, open_place
from opsctl.targets.target import Target

if TYPE_CHECKING:
    from opsctl.release_store import ReleaseStore


def actor_name() -> str:
    """Who acts: OPSCTL_ACTOR, the CI's own actor, or user@host."""
    named = os.environ.get("OPSCTL_ACTOR") or os.environ.get("GITHUB_ACTOR")
    if named:
        return named
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name; OSError from Python 3.13
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True)
class Reader:
    """Looking at a service without being in charge of it."""

    project: Project
    place: Place
    journal: Journal
    inbox: Inbox
    clock: Clock

    @property
    def target(self) -> Target:
        return self.place.target

    @property
    def storage(self) -> Storage:
        return self.place.storage

    @property
    def store(self) -> ReleaseStore:
        """The service's releases."""
        return self.place.releases()

    def open_progress(self) -> Progress | None:
        """The rollout that is not closed, if there is one."""
        segment = self.journal.last()
        if not segment.records or segment.closed:
            return None
        return fold(segment.records, segment.number)

    def rollouts(self) -> list[Progress]:
        """All rollouts, oldest first."""
        return [fold(segment.records, segment.number) for segment in self.journal.all()]

    def newest_first(self) -> Iterator[Progress]:
        """All rollouts, newest first, read one by one."""
        for number in reversed(self.journal.numbers()):
            with contextlib.suppress(JournalBroken):
                segment = self.journal.read(number)
                if segment.records:
                    yield fold(segment.records, number)

    def marks(self) -> ReleaseMarks:
        """Which releases are proved, which rejected."""
        return release_marks(self.rollouts())

    def last_state(self) -> DesiredState:
        """The desired state that the newest rollout left."""
        segment = self.journal.last()
        return fold(segment.records).current if segment.records else DesiredState()

    def observed(self) -> Observed | None:
        """What runs, or None when the target does not answer."""
        try:
            return self.target.observe()
        except TargetUnreachable:
            return None


def reader(project: Project, clock: Clock | None = None) -> Reader:
    """Look at the service of `project`."""
    clock = clock or SystemClock()
    place = open_place(project)
    return Reader(project, place, Journal(place.storage, clock), Inbox(place.storage), clock)


def report_folder(project: Project, number: int) -> Path:
    """Where a rollout's gate and log files lie; its report is the file of the same name."""
    return project.service_dir / "reports" / f"{number:04d}"
