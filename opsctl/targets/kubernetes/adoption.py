"""A Deployment that runs already becomes a release: its pods stay as they are and change owners.

The Deployment and its ReplicaSet go without their pods. Those get the labels of the release, and a
ReplicaSet like the one that the chart's Deployment would make takes them over; that Deployment then
takes over the ReplicaSet, as Kubernetes lets owners adopt what they select. So the first pods that
opsctl starts are those of the next release.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import yaml

from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState, Guard, Json, Share, Stamp, digest
from opsctl.render import manifests
from opsctl.targets.kubernetes import values
from opsctl.targets.kubernetes.adoptable import Found
from opsctl.targets.kubernetes.api import Conflict, Missing
from opsctl.targets.kubernetes.desired import Order
from opsctl.targets.kubernetes.drift import Kinds
from opsctl.targets.kubernetes.names import RELEASE, SWITCH

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

KEPT = "adopted/deployment.json"
"""Entry of the state: the Deployment as it was, so that a killed adoption can be gone on with."""

HASH = "pod-template-hash"
HASH_DIGITS = 10
CHANGE_S = 60.0
"""How long the cluster's controllers may take for one change of owners."""

POLL_S = 0.1
SEEN_S = 1.0
"""Controllers know of new labels a moment later; pods that are not seen would be made anew."""

NAME_OF_HELM = "Helm"


def take(target: KubernetesTarget, found: Found, release: str) -> DesiredState:
    """Make the pods of `found` those of `release`; what runs then. It can be taken again.

    Raises TargetUnreachable.
    """
    state = DesiredState((Share(release, found.replicas, 100),))
    target.storage.write(KEPT, json.dumps(found.deployment).encode())
    objects = _objects(target, state)
    wanted = next(one for one in objects if one["kind"] == "Deployment")
    wanted = _defaulted(target, wanted)
    _set_free(target, found)
    replica_set = _replica_set(wanted, found.replicas)
    _label(target, found, replica_set["spec"]["template"]["metadata"]["labels"])
    time.sleep(SEEN_S)
    with contextlib.suppress(Conflict):  # made by an adoption that was killed
        target.api.post(target.names.path("replicasets"), replica_set)
    _wait(lambda: _are_owned(target, found, replica_set), "its pods have their new ReplicaSet")
    for one in objects:
        _give_to_helm(target, one)
    return state


def _objects(target: KubernetesTarget, state: DesiredState) -> list[Json]:
    """What the chart makes of the state."""
    order = Order(state, Stamp(0, 0), Guard(state, unattended=True))
    made = values.of_state(target, state, order, {})
    names = target.names
    place = manifests.Place(names.namespace, names.service, NAME_OF_HELM, target.mode == "route")
    return [one for one in yaml.safe_load_all(manifests.render(made, place)) if one]


def _defaulted(target: KubernetesTarget, wanted: Json) -> Json:
    """The Deployment as the server will have it, with all that it adds."""
    path = target.names.path("deployments")
    try:
        return target.api.post(path, wanted, dryRun="All")
    except Conflict:
        return target.api.get(f"{path}/{wanted['metadata']['name']}")


def _replica_set(deployment: Json, replicas: int) -> Json:
    """The ReplicaSet that the Deployment takes for its own: equal templates are what it goes by."""
    template = json.loads(json.dumps(deployment["spec"]["template"]))
    mark = digest(template)[:HASH_DIGITS]
    template["metadata"]["labels"][HASH] = mark
    metadata = deployment["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{mark}",
            "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"],
        },
        "spec": {
            "replicas": replicas,
            "selector": {
                "matchLabels": {**deployment["spec"]["selector"]["matchLabels"], HASH: mark}
            },
            "template": template,
        },
    }


def _set_free(target: KubernetesTarget, found: Found) -> None:
    """Delete the Deployment and its ReplicaSets, and leave their pods to nobody."""
    names, api = target.names, target.api
    paths = [names.path("deployments", found.name)]
    old = api.get(names.path("replicasets"), labelSelector=found.selector)["items"]
    paths += [
        names.path("replicasets", one["metadata"]["name"])
        for one in old
        if RELEASE not in one["metadata"].get("labels", {})
    ]
    for path in paths:
        api.delete(path, propagationPolicy="Orphan")
        _wait(partial(_is_gone, target, path), f"{path} is gone")


def _is_gone(target: KubernetesTarget, path: str) -> bool:
    try:
        target.api.get(path)
    except Missing:
        return True
    return False


def _label(target: KubernetesTarget, found: Found, labels: Json) -> None:
    for pod in found.pods:
        path = target.names.path("pods", pod["metadata"]["name"])
        with contextlib.suppress(Missing):  # it ended meanwhile; another takes its place
            target.api.patch(path, {"metadata": {"labels": labels}}, SWITCH)


def _are_owned(target: KubernetesTarget, found: Found, replica_set: Json) -> bool:
    chosen = f"{RELEASE}={replica_set['metadata']['labels'][RELEASE]}"
    pods = target.api.get(target.names.path("pods"), labelSelector=chosen)["items"]
    owned = [pod for pod in pods if pod["metadata"].get("ownerReferences")]
    return len(owned) == len(pods) >= found.replicas


def _give_to_helm(target: KubernetesTarget, wanted: Json) -> None:
    """Let Helm take an object over that it did not make; users are sent to the same pods by the
    labels that they have now."""
    names = target.names
    try:
        path = Kinds(target.api).path(wanted, names.namespace)
        known = target.api.get(path)
    except Missing:
        return
    notes = {
        "meta.helm.sh/release-name": names.service,
        "meta.helm.sh/release-namespace": names.namespace,
    }
    labels = {"app.kubernetes.io/managed-by": NAME_OF_HELM}
    body: Json = {"metadata": {"labels": labels, "annotations": notes}}
    if wanted["kind"] == "Service":
        old = known["spec"].get("selector") or {}
        body["spec"] = {"selector": {**dict.fromkeys(old), **wanted["spec"]["selector"]}}
    target.api.patch(path, body, SWITCH)
    # Nobody owns its fields then, so Helm's apply meets no conflict.
    target.api.patch(path, {"metadata": {"managedFields": [{}]}}, SWITCH)


def _wait(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CHANGE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TargetUnreachable(
                f"it did not come true within {CHANGE_S:g} s that {what}",
                next_step="See kubectl get events, then run the same adoption again",
            )
        time.sleep(POLL_S)
