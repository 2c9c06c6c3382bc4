"""Immutable releases of target `kubernetes`: an image by digest, and all that its pods are like.

In the state: `releases/r12/release.json`, and `releases/last` with the highest number ever used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed, ConfigError, OpsctlError
from opsctl.images.policy import require_policy
from opsctl.images.reference import parse
from opsctl.images.registry import Registry, RegistryFailed
from opsctl.model import Json, digest
from opsctl.release import Launch, Release
from opsctl.release_changes import config_changes, is_name, model_change, number_of
from opsctl.release_store import Interrupt, Tell, never
from opsctl.render.service_values import pod_values, secret_name
from opsctl.secrets import SecretStore

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

FOLDER = "releases"
LAST = f"{FOLDER}/last"


class KubeReleaseStore:
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def __init__(self, target: KubernetesTarget) -> None:
        self._target = target
        self._storage = target.storage

    def build(
        self, project: Project, name: str, *, actor: str, tell: Tell, interrupt: Interrupt
    ) -> Release:
        """Make the release `name` of what the project is now; a complete one is given as it is.

        The image's tag is resolved here, once. Raises PreflightRefused or BuildFailed.
        """
        if name in self._complete():
            return self.get(name)
        reference = self._reference(project, tell, interrupt)
        require_policy(project, reference)
        self.reserve(name)
        base = self._target.orders.read().in_force.serving_release or ""
        launch = _launch(project, name, reference, "" if base == name else base)
        release = Release(
            name=name,
            digest=_digest_of(reference, project),
            created=time.time(),
            app_digest=reference.rpartition("@")[2],
            model=None,
            config_digest=digest(_identity(project)),
            launch=launch,
            built_digest=reference.rpartition("@")[2],
            created_by=actor,
        )
        text = json.dumps(release.to_dict(), indent=1, ensure_ascii=False) + "\n"
        self._storage.write(f"{FOLDER}/{name}/release.json", text.encode())
        tell(f"{name} is {reference}")
        return release

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without building or pulling anything."""
        if _is_built(project):
            from opsctl.images.build import planned

            # What has still to be built is like no image that any release has.
            reference = planned(project, interrupt) or f"{project.service_name}@to be built"
            return _digest_of(reference, project)
        return _digest_of(pinned(image_name(project)), project)

    def get(self, name: str) -> Release:
        """The release `name`. Raises `ConfigError` when there is none, `OpsctlError` if damaged."""
        number_of(name)
        kept = self._storage.read(f"{FOLDER}/{name}/release.json")
        if kept is None:
            known = ", ".join(self._complete()) or "none"
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
                why=f"its entry in {self._storage.label} does not hold what was written ({error})",
                next_step="Deploy again, or roll back to another release",
            ) from error

    def list(self) -> tuple[Release, ...]:
        """All complete releases, oldest first."""
        return tuple(self.get(name) for name in self._complete())

    def remove(self, name: str) -> None:
        """Forget a release and its secrets; images are the registry's."""
        number_of(name)
        self._storage.remove(f"{FOLDER}/{name}")
        SecretStore(self._storage).remove(name)

    def next_name(self) -> str:
        """The name of the next release. It stays the same until `reserve` or `build` take it."""
        return f"r{self._last() + 1}"

    def reserve(self, name: str) -> None:
        """Take a number for good: no later release gets it, even if this one is never built."""
        number = number_of(name)
        if number > self._last():
            self._storage.write(LAST, f"{number}\n".encode())

    def altered(self, name: str) -> Mapping[str, Sequence[str]]:
        """Nothing: the image is named by its content."""
        number_of(name)
        return {}

    def difference(self, base: str | None, name: str) -> Json:
        """What `name` changes against `base`: image and launch settings."""
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

    def _reference(self, project: Project, tell: Tell, interrupt: Interrupt) -> str:
        """The image, pinned: `app.image`, or what `build` makes of the project now."""
        if not _is_built(project):
            return pinned(image_name(project))
        from opsctl.images.build import ensure_built

        return pinned(ensure_built(project, tell, interrupt))

    def _complete(self) -> tuple[str, ...]:
        names = [name for name in self._storage.names(FOLDER) if is_name(name)]
        return tuple(
            name
            for name in sorted(names, key=number_of)
            if "release.json" in self._storage.names(f"{FOLDER}/{name}")
        )

    def _last(self) -> int:
        kept = self._storage.read(LAST)
        numbers = [number_of(name) for name in self._complete()]
        if kept is not None and kept.data.strip().isdigit():
            numbers.append(int(kept.data))
        return max(numbers, default=0)


def pinned(name: str) -> str:
    """`name` with the digest that its tag has now. Raises BuildFailed when nobody can tell."""
    reference = parse(name)
    if reference.digest:
        return name
    tag = reference.tag or "latest"
    why = f"its registry has no tag {tag}"
    try:
        found = Registry(reference).digest_of(tag)
    except RegistryFailed as error:
        found, why = None, str(error)
    if found is None:
        raise BuildFailed(
            f"cannot tell which image {name} is",
            why=why,
            next_step="Log in with docker login, or pin it: NAME@sha256:DIGEST.",
        )
    return str(reference.pinned(found))


def image_name(project: Project) -> str:
    """`app.image`. Raises ConfigError when opsctl.yaml names none."""
    if project.service.app.image:
        return project.service.app.image
    raise ConfigError(
        f"service {project.service_name} has no image",
        why="target kubernetes runs containers, and app.image is not set",
        next_step=f"Set app.image in {project.path}, or build one: opsctl build",
    )


def _is_built(project: Project) -> bool:
    return project.service.app.image is None and project.service.build is not None


def _launch(project: Project, name: str, image: str, base: str) -> Launch:
    service = project.service
    pod = pod_values(service, name, secret_name(project.service_name, name))
    return Launch(
        command=service.app.command,
        python="python3",
        directory="",
        model_path=service.kubernetes.model_path,
        env=dict(service.app.env),
        secrets=tuple(sorted(service.app.secrets)),
        memory_mb=service.resources.memory_mb,
        cpus=(),
        stop_timeout_s=service.app.stop_timeout_s,
        health=service.health,
        image=image,
        container={"base": base, "pod": pod},
    )


def _identity(project: Project) -> Json:
    """What makes the pods of two releases different, but their name and their image."""
    launch = _launch(project, "", "", "").to_dict()
    launch.pop("image", None)
    return launch


def _digest_of(reference: str, project: Project) -> str:
    return digest({"image": reference.rpartition("@")[2], "config": _identity(project)})
