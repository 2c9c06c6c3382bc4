"""Immutable releases that are an image by digest: what targets `docker` and `kubernetes` share.

In a target's storage: `releases/r12/release.json`, and `releases/last` with the highest number
ever used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from opsctl.config.settings import Project
from opsctl.errors import ConfigError, OpsctlError
from opsctl.model import Json
from opsctl.release import Release
from opsctl.release_changes import config_changes, is_name, model_change, number_of
from opsctl.secrets import SecretStore
from opsctl.storage import Storage

FOLDER = "releases"
LAST = f"{FOLDER}/last"
FILE = "release.json"


class ImageReleases:
    """The releases of one service. Whoever writes, removes or reserves holds the service's lock."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def get(self, name: str) -> Release:
        """The release `name`. Raises `ConfigError` when there is none, `OpsctlError` if damaged."""
        number_of(name)
        kept = self._storage.read(f"{FOLDER}/{name}/{FILE}")
        if kept is None:
            known = ", ".join(self.complete()) or "none"
            raise ConfigError(
                f"there is no release {name}",
                why=f"releases here: {known}",
                next_step="Run: opsctl releases list",
            )
        try:
            return Release.from_dict(json.loads(kept.data))
        except (ValueError, KeyError, TypeError) as error:
            raise OpsctlError(
                f"release {name} is damaged",
                why=f"its {FILE} in {self._storage.label} does not hold what was written ({error})",
                next_step="Deploy again, or roll back to another release",
            ) from error

    def list(self) -> tuple[Release, ...]:
        """All complete releases, oldest first."""
        return tuple(self.get(name) for name in self.complete())

    def complete(self) -> tuple[str, ...]:
        """The names of all complete releases, oldest first."""
        names = [name for name in self._storage.names(FOLDER) if is_name(name)]
        return tuple(
            name
            for name in sorted(names, key=number_of)
            if FILE in self._storage.names(f"{FOLDER}/{name}")
        )

    def write(self, release: Release) -> None:
        """Keep a release for good."""
        text = json.dumps(release.to_dict(), indent=1, ensure_ascii=False) + "\n"
        self._storage.write(f"{FOLDER}/{release.name}/{FILE}", text.encode())

    def remove(self, name: str) -> None:
        """Forget a release and its secrets.

        Its image stays: it is the registry's, other services of a host may use it, and whoever
        runs containers prunes images itself.
        """
        number_of(name)
        self._storage.remove(f"{FOLDER}/{name}")
        SecretStore(self._storage).remove(name)

    def next_name(self) -> str:
        """The name of the next release. It stays the same until a release or `reserve` takes it."""
        return f"r{self._last() + 1}"

    def reserve(self, name: str) -> None:
        """Take a number for good: no later release gets it, even if this one is never built."""
        number = number_of(name)
        if number > self._last():
            self._storage.write(LAST, f"{number}\n".encode())

    def altered(self, name: str) -> Mapping[str, Sequence[str]]:
        """Nothing: image and model are named by their content."""
        number_of(name)
        return {}

    def difference(self, base: str | None, name: str) -> Json:
        """What `name` changes against `base`: image, model, launch settings."""
        new = self.get(name)
        old = self.get(base) if base else None
        same = old is not None and old.app_digest == new.app_digest
        image = new.launch.image
        return {
            "base": base,
            "release": name,
            "digest": {"from": old.digest if old else None, "to": new.digest},
            "app": {
                "added": [] if old else [image],
                "removed": [],
                "changed": [] if same or not old else [image],
            },
            "model": model_change(old, new),
            "config": config_changes(old, new),
        }

    def _last(self) -> int:
        kept = self._storage.read(LAST)
        numbers = [number_of(name) for name in self.complete()]
        if kept is not None and kept.data.strip().isdigit():
            numbers.append(int(kept.data))
        return max(numbers, default=0)


def is_built(project: Project) -> bool:
    """Whether the image is made by `opsctl build`, and not named by `app.image`."""
    return project.service.app.image is None and project.service.build is not None


def image_name(project: Project) -> str:
    """`app.image`. Raises ConfigError when opsctl.yaml names none."""
    if project.service.app.image:
        return project.service.app.image
    raise ConfigError(
        f"service {project.service_name} has no image",
        why=f"target {project.target} runs containers, and app.image is not set",
        next_step=f"Set app.image in {project.path}, or build one: opsctl build",
    )
