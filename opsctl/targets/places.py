"""Targets by name: what acts, where the state lies, what keeps the releases. One row a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.model import Json
from opsctl.storage import Storage
from opsctl.targets.target import Drift, Handover, RemoteGate, Tap, Target

if TYPE_CHECKING:
    from opsctl.bench import GateRequest
    from opsctl.release_store import ReleaseStore


@dataclass(frozen=True)
class Place:
    """A target as one service uses it. Making one touches nothing."""

    target: Target
    storage: Storage
    releases: Callable[[], ReleaseStore]
    """Opens the store of releases; `opsctl status` needs none, so it is made when asked for."""
    drift: Callable[[], Sequence[Drift]] = tuple
    """What the target knows to differ from what was deployed, beyond what `observe` tells."""
    tap: Callable[[float], AbstractContextManager[Tap]] | None = None
    """Has the load balancer tell of a share of the requests; None where it is not opsctl's."""
    handover: Callable[[], Handover] | None = None
    """Opens what takes over what runs already, and gives it back; None where nothing does."""
    gate: RemoteGate | None = None
    """Runs the benchmark gate next to the replicas; None where this machine does it itself."""


def _local(project: Project) -> Place:
    from opsctl.storage_folder import FolderStorage
    from opsctl.targets.local import LocalTarget

    def releases() -> ReleaseStore:
        from opsctl.releases import LocalReleaseStore

        return LocalReleaseStore(project.service_dir)

    def tap(share: float) -> AbstractContextManager[Tap]:
        from opsctl.targets import tap

        return tap.tap(project.service_dir / "run", share)

    storage = FolderStorage(project.service_dir)
    return Place(LocalTarget(project), storage, releases, tap=tap)


def _docker(project: Project) -> Place:
    from opsctl.targets.docker.place import target_of

    target = target_of(project)

    def releases() -> ReleaseStore:
        from opsctl.targets.docker.place import releases_of

        return releases_of(target)

    return Place(target, target.storage, releases, tap=target.tap)


def _kubernetes(project: Project) -> Place:
    from opsctl.targets.kubernetes.place import target_of

    target = target_of(project)

    def releases() -> ReleaseStore:
        from opsctl.targets.kubernetes.place import releases_of

        return releases_of(target)

    def drift() -> Sequence[Drift]:
        from opsctl.targets.kubernetes.drift import of_target

        return of_target(target)

    def handover() -> Handover:
        from opsctl.targets.kubernetes.handover import KubeHandover

        return KubeHandover(target)

    def gate(
        request: GateRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
    ) -> Json:
        from opsctl.targets.kubernetes.bench_job import run_gate

        return run_gate(target, request, tell=tell, interrupt=interrupt)

    there = gate if project.service.kubernetes.bench_image else None
    return Place(target, target.storage, releases, drift, handover=handover, gate=there)


OPENERS: Mapping[str, Callable[[Project], Place]] = {
    "docker": _docker,
    "kubernetes": _kubernetes,
    "local": _local,
}


def open_place(project: Project) -> Place:
    """The place of `project`, by its environment's target."""
    return OPENERS[project.target](project)
