"""The guard's Deployment and its rights: made when a rollout begins, gone with `down`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsctl.model import Json, digest
from opsctl.targets.kubernetes.api import Conflict, Missing
from opsctl.targets.kubernetes.names import Names

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

GUARD_PART = "guard"
MARK = "opsctl/guard"
"""Annotation: digest of what the object was made of."""

USER = 65532
GROUPS = {
    "deployments": "/apis/apps/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "serviceaccounts": "/api/v1",
}
RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["pods", "services", "events"],
     "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "update"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
     "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["httproutes"],
     "verbs": ["get", "patch"]},
]  # fmt: skip


def ensure(target: KubernetesTarget) -> None:
    """See that the guard runs as it should. Raises TargetUnreachable."""
    image = target.settings.guard_image
    if image is None:
        return
    pod = Pod(image, target.mode, target.settings.image_pull_secrets)
    for kind, made in objects(target.names, pod):
        _keep(target, kind, made)


def remove(target: KubernetesTarget) -> None:
    """Take the guard away."""
    for kind in GROUPS:
        path = f"{GROUPS[kind]}/namespaces/{target.names.namespace}/{kind}"
        target.api.delete(path, labelSelector=target.names.kept(GUARD_PART))


@dataclass(frozen=True)
class Pod:
    """What the guard's pod is made of."""

    image: str
    mode: str
    """How traffic is shared: `route` or `selector`."""
    pull_secrets: Sequence[str] = ()
    """Secrets of the image's registry."""


def objects(names: Names, pod: Pod) -> list[tuple[str, Json]]:
    """What the guard is made of, in the order in which it can be made."""
    name = f"opsctl-{names.service}-guard"
    metadata = {"name": name, "namespace": names.namespace, "labels": names.labels(GUARD_PART)}
    rbac = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": name, "namespace": names.namespace}
    role = {"apiGroup": rbac, "kind": "Role", "name": name}
    return [
        ("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        ("roles", {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata,
                   "rules": RULES}),
        ("rolebindings", {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": metadata,
                          "roleRef": role, "subjects": [account]}),
        ("deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                         "spec": _spec(names, name, pod)}),
    ]  # fmt: skip


def _spec(names: Names, name: str, pod: Pod) -> Json:
    labels = names.labels(GUARD_PART)
    command = ["python3", "-m", "opsctl.targets.kubernetes.guard", "--service", names.service,
               "--namespace", names.namespace, "--mode", pod.mode]  # fmt: skip
    container = {
        "name": "guard",
        "image": pod.image,
        "command": command,
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "replicas": 1,
        # Two at once would only do the same twice.
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": name,
                "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
                "terminationGracePeriodSeconds": 2,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}],
            },
        },
    }


def _keep(target: KubernetesTarget, kind: str, made: Json) -> None:
    """Make an object, or replace one that was made of something else."""
    folder = f"{GROUPS[kind]}/namespaces/{target.names.namespace}/{kind}"
    path, mark = f"{folder}/{made['metadata']['name']}", digest(made)
    made = {**made, "metadata": {**made["metadata"], "annotations": {MARK: mark}}}
    try:
        found = target.api.get(path)
    except Missing:
        try:
            target.api.post(folder, made)
        except Conflict:
            return  # another command was faster
        return
    if found["metadata"].get("annotations", {}).get(MARK) != mark:
        version = found["metadata"]["resourceVersion"]
        target.api.put(path, {**made, "metadata": {**made["metadata"], "resourceVersion": version}})
