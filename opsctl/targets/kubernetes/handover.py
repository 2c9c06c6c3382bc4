"""A service of the namespace comes to opsctl, and leaves it, while its pods run on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import yaml

from opsctl.model import DesiredState, Json
from opsctl.targets.kubernetes import adoptable, adoption, guard_setup, take_down
from opsctl.targets.kubernetes.api import Missing
from opsctl.targets.kubernetes.drift import Kinds
from opsctl.targets.kubernetes.helm import decoded
from opsctl.targets.kubernetes.names import PART, PATH, SERVICE, SWITCH

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

OF_OURS = ("opsctl/", "meta.helm.sh/")
"""Annotations that mean nothing any more to whoever has the objects next."""

MANAGED = "app.kubernetes.io/managed-by"


class KubeHandover:
    """Of one service."""

    def __init__(self, target: KubernetesTarget) -> None:
        self._target = target

    def find(self, name: str) -> Sequence[str]:
        """What of the namespace names the pods of Deployment `name` and will be left alone.

        Raises PreflightRefused when it can't be adopted as it is.
        """
        left_alone = self._found(name).left_alone
        adoptable.check_rights(self._target, name)
        return left_alone

    def take(self, name: str, release: str, image: str) -> DesiredState:
        """Make its pods those of `release`. Raises PreflightRefused, TargetUnreachable."""
        found = self._found(name)
        adoptable.check_image(found, image)
        return adoption.take(self._target, found, release)

    def give_back(self, epoch: int) -> Sequence[str]:
        """Forget the service, whose pods run on; the Deployments that are left."""
        target = self._target
        target.orders.shut_out(epoch)
        target.stop()
        guard_setup.remove(target)
        in_force = target.view.look().in_force
        kept = DesiredState(tuple(share for share in in_force.shares if share.weight))
        take_down.reap(target, kept)
        _keep_secrets(target, kept)
        record = target.helm.last_record()
        manifest = decoded(record)["manifest"] if record else ""
        _forget(target)
        for one in filter(None, yaml.safe_load_all(manifest)):
            _disown(target, one)
        return [target.names.workload(share.release) for share in kept.shares]

    def _found(self, name: str) -> adoptable.Found:
        content = self._target.storage.read(adoption.KEPT)
        return adoptable.find(self._target, name, content.data if content else None)


def _forget(target: KubernetesTarget) -> None:
    """Helm's history goes first: from then on no upgrade compares with it."""
    chosen = f"owner=helm,name={target.names.service}"
    target.api.delete(target.names.path("secrets"), labelSelector=chosen)


def _keep_secrets(target: KubernetesTarget, kept: DesiredState) -> None:
    """Pods that run on need the values of their variables at each start."""
    for share in kept.shares:
        path = target.names.path("secrets", target.names.secret(share.release))
        labels = dict.fromkeys((SERVICE, PART, MANAGED))
        body = {"metadata": {"labels": labels, "annotations": {PATH: None}}}
        with contextlib.suppress(Missing):
            target.api.patch(path, body, SWITCH)


def _disown(target: KubernetesTarget, made: Json) -> None:
    """Take the marks of Helm and opsctl from an object of the last revision."""
    try:
        path = Kinds(target.api).path(made, target.names.namespace)
        found = target.api.get(path)
    except Missing:
        return
    notes = found["metadata"].get("annotations") or {}
    gone = [name for name in notes if name.startswith(OF_OURS)]
    metadata = {"labels": {MANAGED: None}, "annotations": dict.fromkeys(gone)}
    target.api.patch(path, {"metadata": metadata}, SWITCH)
    # Whoever applies it next owns its fields.
    target.api.patch(path, {"metadata": {"managedFields": [{}]}}, SWITCH)
