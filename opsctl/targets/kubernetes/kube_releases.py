"""Immutable releases of target `kubernetes`: an image by digest, and all that its pods are like."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed
from opsctl.image_releases import ImageReleases, image_name, is_built
from opsctl.images.policy import require_policy
from opsctl.images.reference import parse
from opsctl.images.registry import Registry, RegistryFailed
from opsctl.model import Json, digest
from opsctl.release import Launch, Release
from opsctl.release_store import Interrupt, Tell, never
from opsctl.render.service_values import pod_values, secret_name

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget


class KubeReleaseStore(ImageReleases):
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def __init__(self, target: KubernetesTarget) -> None:
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
        self.write(release)
        tell(f"{name} is {reference}")
        return release

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without building or pulling anything."""
        if is_built(project):
            from opsctl.images.build import planned

            # What has still to be built is like no image that any release has.
            reference = planned(project, interrupt) or f"{project.service_name}@to be built"
            return _digest_of(reference, project)
        return _digest_of(pinned(image_name(project)), project)

    def _reference(self, project: Project, tell: Tell, interrupt: Interrupt) -> str:
        """The image, pinned: `app.image`, or what `build` makes of the project now."""
        if not is_built(project):
            return pinned(image_name(project))
        from opsctl.images.build import ensure_built

        return pinned(ensure_built(project, tell, interrupt))


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
