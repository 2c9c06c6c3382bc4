"""What a target's store of releases can do: releases are built once and never edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from opsctl.config.settings import Project
from opsctl.model import Json
from opsctl.release import Release

Tell = Callable[[str], None]
Interrupt = Callable[[], None]


def never() -> None:
    """The `interrupt` of an action that nobody stops."""


class ReleaseStore(Protocol):
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def build(
        self, project: Project, name: str, *, actor: str, tell: Tell, interrupt: Interrupt
    ) -> Release:
        """Make the release `name` of what the project is now; a complete one is given as it is.

        Raises `PreflightRefused` (sources missing or unfit, no space) or `BuildFailed`.
        """

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without making anything."""

    def get(self, name: str) -> Release:
        """The release `name`. Raises `ConfigError` when there is none, `OpsctlError` if damaged."""

    def list(self) -> tuple[Release, ...]:
        """All complete releases, oldest first."""

    def remove(self, name: str) -> None:
        """Forget a release, its secrets, its logs, and models that no other release needs."""

    def next_name(self) -> str:
        """The name of the next release. It stays the same until `reserve` or `build` take it."""

    def reserve(self, name: str) -> None:
        """Take a number for good: no later release gets it, even if this one is never built."""

    def altered(self, name: str) -> Mapping[str, Sequence[str]]:
        """What of the release differs from what was built; empty when untouched."""

    def difference(self, base: str | None, name: str) -> Json:
        """What `name` changes against `base`."""
