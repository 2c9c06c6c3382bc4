"""Immutable releases of target `docker`: an image by digest, a model by digest, launch settings.

In the state volume: `releases/r12/release.json`, and `releases/last` with the highest number ever
used. Models lie in a volume of their own as `<digest>/model`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.errors import ConfigError, OpsctlError
from opsctl.images.policy import require_policy
from opsctl.model import Json, digest
from opsctl.release import Launch, ModelArtefact, Release
from opsctl.release_changes import (
    config_changes,
    is_name,
    model_change,
    number_of,
)
from opsctl.release_sources import ModelSource, read_model
from opsctl.release_store import Interrupt, Tell, never
from opsctl.secrets import SecretStore
from opsctl.targets.docker import image_source, model_upload
from opsctl.targets.docker.container import Limits
from opsctl.targets.docker.image_source import Image

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget

FOLDER = "releases"
LAST = f"{FOLDER}/last"


class DockerReleaseStore:
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def __init__(self, target: DockerTarget) -> None:
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
        image = image_source.fetch(self._target.engine, reference, tell, interrupt)
        source = read_model(project, interrupt)
        model = None
        if source is not None:
            model = model_upload.keep(self._target, source, tell, interrupt)
        self.reserve(name)
        launch = self._launch(project, image, model)
        release = Release(
            name=name,
            digest=_digest_of(reference, source, self._identity(project)),
            created=time.time(),
            app_digest=image.digest,
            model=model,
            config_digest=digest(self._identity(project)),
            launch=launch,
            built_digest=image.id,
            created_by=actor,
        )
        text = json.dumps(release.to_dict(), indent=1, ensure_ascii=False) + "\n"
        self._storage.write(f"{FOLDER}/{name}/release.json", text.encode())
        tell(f"{name} is {reference}")
        return release

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without pulling anything."""
        reference = self._planned(project, interrupt)
        return _digest_of(reference, read_model(project, interrupt), self._identity(project))

    def _reference(self, project: Project, tell: Tell, interrupt: Interrupt) -> str:
        """The image, pinned: `app.image`, or what `build` makes of the project now."""
        if not _is_built(project):
            return image_source.find(self._target.engine, image_name(project))
        from opsctl.images.build import ensure_built

        return image_source.find(self._target.engine, ensure_built(project, tell, interrupt))

    def _planned(self, project: Project, interrupt: Interrupt) -> str:
        """The image of `_reference` as far as it is known without building anything."""
        if not _is_built(project):
            return image_source.find(self._target.engine, image_name(project))
        from opsctl.images.build import planned

        # What has still to be built is like no image that any release has.
        return planned(project, interrupt) or f"{project.service_name}@to be built"

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
                why=f"its release.json in {self._storage.label} does not hold what was written"
                f" ({error})",
                next_step="Deploy again, or roll back to another release",
            ) from error

    def list(self) -> tuple[Release, ...]:
        """All complete releases, oldest first."""
        return tuple(self.get(name) for name in self._complete())

    def remove(self, name: str) -> None:
        """Forget a release, its secrets, and models that no other release needs.

        Its image stays: other services of the host may use it, and Docker prunes images itself.
        """
        number_of(name)
        self._storage.remove(f"{FOLDER}/{name}")
        SecretStore(self._storage).remove(name)
        model_upload.prune(self._target, {r.model.digest for r in self.list() if r.model})

    def next_name(self) -> str:
        """The name of the next release. It stays the same until `reserve` or `build` take it."""
        return f"r{self._last() + 1}"

    def reserve(self, name: str) -> None:
        """Take a number for good: no later release gets it, even if this one is never built."""
        number = number_of(name)
        if number > self._last():
            self._storage.write(LAST, f"{number}\n".encode())

    def altered(self, name: str) -> Mapping[str, Sequence[str]]:
        """Nothing: image and model are named by their content, and mounted read-only."""
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

    def _launch(self, project: Project, image: Image, model: ModelArtefact | None) -> Launch:
        app, docker = project.service.app, project.service.docker
        limits = Limits(
            user=image_source.replica_user(docker.user, image),
            port=docker.replica_port,
            health_port=docker.health_port,
            cpus_max=docker.cpus_max,
            pids_max=docker.pids_max,
            tmp_mb=docker.tmp_mb,
            log_max_mb=docker.log_max_mb,
            log_files=docker.log_files,
            image_health=image.has_health,
            npus=self._target.npus(),
        )
        return Launch(
            command=app.command,
            python=docker.python,
            directory="",
            model_path=model.path if model else "",
            env=dict(app.env),
            secrets=tuple(sorted(app.secrets)),
            memory_mb=project.service.resources.memory_mb,
            cpus=project.service.resources.cpus,
            stop_timeout_s=app.stop_timeout_s,
            health=project.service.health,
            image=image.reference,
            container=limits.to_dict(),
        )

    def _identity(self, project: Project) -> Json:
        """The launch settings that make two releases different, as opsctl.yaml has them."""
        nothing = Image("", "", "1", False, "")
        launch = self._launch(project, nothing, None).to_dict()
        for key in ("directory", "model_path", "image"):
            launch.pop(key, None)
        return launch

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


def _is_built(project: Project) -> bool:
    return project.service.app.image is None and project.service.build is not None


def image_name(project: Project) -> str:
    """`app.image`. Raises ConfigError when opsctl.yaml names none."""
    if project.service.app.image:
        return project.service.app.image
    raise ConfigError(
        f"service {project.service_name} has no image",
        why="target docker runs containers, and app.image is not set",
        next_step=f"Set app.image in {project.path}, or build one: opsctl build",
    )


def _digest_of(reference: str, model: ModelSource | None, identity: Json) -> str:
    artefact = {"name": model.name, "digest": model.digest} if model else None
    return digest({"image": reference.rpartition("@")[2], "model": artefact, "config": identity})
