"""Immutable releases of target `docker`: an image by digest, a model by digest, launch settings.

Releases lie in the state volume, models in a volume of their own as `<digest>/model`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.image_releases import ImageReleases, image_name, is_built
from opsctl.images.policy import require_policy
from opsctl.model import Json, digest
from opsctl.release import Launch, ModelArtefact, Release
from opsctl.release_sources import ModelSource, read_model
from opsctl.release_store import Interrupt, Tell, never
from opsctl.targets.docker import image_source, model_upload
from opsctl.targets.docker.container import Limits
from opsctl.targets.docker.image_source import Image

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget


class DockerReleaseStore(ImageReleases):
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def __init__(self, target: DockerTarget) -> None:
        super().__init__(target.storage)
        self._target = target

    def build(
        self, project: Project, name: str, *, actor: str, tell: Tell, interrupt: Interrupt
    ) -> Release:
        """Make the release `name` of what the project is now; a complete one is given as it is.

        The image's tag is resolved here, once. Raises PreflightRefused or BuildFailed.
        """
        if name in self.complete():
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
        self.write(release)
        tell(f"{name} is {reference}")
        return release

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without pulling anything."""
        reference = self._planned(project, interrupt)
        return _digest_of(reference, read_model(project, interrupt), self._identity(project))

    def _reference(self, project: Project, tell: Tell, interrupt: Interrupt) -> str:
        """The image, pinned: `app.image`, or what `build` makes of the project now."""
        if not is_built(project):
            return image_source.find(self._target.engine, image_name(project))
        from opsctl.images.build import ensure_built

        return image_source.find(self._target.engine, ensure_built(project, tell, interrupt))

    def _planned(self, project: Project, interrupt: Interrupt) -> str:
        """The image of `_reference` as far as it is known without building anything."""
        if not is_built(project):
            return image_source.find(self._target.engine, image_name(project))
        from opsctl.images.build import planned

        # What has still to be built is like no image that any release has.
        return planned(project, interrupt) or f"{project.service_name}@to be built"

    def remove(self, name: str) -> None:
        """Forget a release, its secrets, and models that no other release needs."""
        super().remove(name)
        model_upload.prune(self._target, {r.model.digest for r in self.list() if r.model})

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


def _digest_of(reference: str, model: ModelSource | None, identity: Json) -> str:
    artefact = {"name": model.name, "digest": model.digest} if model else None
    return digest({"image": reference.rpartition("@")[2], "model": artefact, "config": identity})
