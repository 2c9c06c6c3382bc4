"""Target `kubernetes` as one service uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.targets.kubernetes.target import KubernetesTarget

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.kube_releases import KubeReleaseStore


def target_of(project: Project) -> KubernetesTarget:
    """The target of a project. Making one touches nothing."""
    return KubernetesTarget(project)


def releases_of(target: KubernetesTarget) -> KubeReleaseStore:
    """The store of its releases."""
    from opsctl.targets.kubernetes.kube_releases import KubeReleaseStore

    return KubeReleaseStore(target)
