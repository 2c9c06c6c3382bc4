"""The end of a service in its namespace, and of what killed upgrades left there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState, Guard, Stamp
from opsctl.targets.kubernetes import bench_job, guard_setup
from opsctl.targets.kubernetes.desired import Order
from opsctl.targets.kubernetes.live import key_of
from opsctl.targets.kubernetes.names import INSTANCE, RELEASE, ROLE

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

HELD = ("releases", "secrets")
"""Folders of the state that go; journal, inbox and bundles stay as the record of it."""

OF_A_RELEASE = (
    "deployments",
    "services",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "configmaps",
)
MARGIN_S = 60.0
"""On top of drain and stop limits, for a cluster under load."""


def run(target: KubernetesTarget, epoch: int) -> None:
    """Remove everything but the state's record.

    Raises Superseded, and TargetUnreachable when something would not stop.
    """
    target.orders.shut_out(epoch)
    target.stop()
    guard_setup.remove(target)
    if target.settings.bench_image is not None:
        bench_job.remove(target)
    target.helm.uninstall()
    reap(target, DesiredState())
    service = target.project.service
    limit_s = service.strategy.drain_timeout_s + service.app.stop_timeout_s + MARGIN_S
    if not target.view.pods.wait(lambda objects: not objects, limit_s):
        left = ", ".join(pod["metadata"]["name"] for pod in target.view.pods.all())
        raise TargetUnreachable(
            f"pods {left} did not stop within {limit_s:g} s", next_step="Run again: opsctl down"
        )
    _forget(target, epoch)


def _forget(target: KubernetesTarget, epoch: int) -> None:
    """Nothing is ordered any more, and no older command may order anything."""
    nothing = DesiredState()
    sequence = target.orders.read().stamp.sequence
    if target.view.services.get(target.names.service) is not None:
        time.sleep(0)  # the watch tells of the Service's end a moment later
        target.view.refresh()
    target.orders.give(Order(nothing, Stamp(epoch, sequence), Guard(nothing, unattended=True)))
    for folder in HELD:
        target.storage.remove(folder)


def reap(target: KubernetesTarget, state: DesiredState) -> None:
    """Delete objects of releases that `state` does not have: those of an upgrade that was killed
    stand in no revision that Helm compares with."""
    wanted = {(share.release, share.role) for share in state.shares}
    names = target.names
    for kind in OF_A_RELEASE:
        selector = f"{INSTANCE}={names.service},{RELEASE},{ROLE}"
        for found in target.api.get(names.path(kind), labelSelector=selector)["items"]:
            if key_of(found) not in wanted and not found["metadata"].get("deletionTimestamp"):
                path = names.path(kind, found["metadata"]["name"])
                target.api.delete(path, propagationPolicy="Background")
