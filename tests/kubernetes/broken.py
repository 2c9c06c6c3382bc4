"""Objects that will not come up, each for one reason, for a real cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


def pod(
    image: str, *, name: str = "", fault: Mapping[str, object] | None = None, **spec: Any
) -> Json:
    """A pod of the small service at the strictest level; `container` changes its container."""
    container = {
        "name": "service",
        "image": image,
        "env": [{"name": "LIGHT_FAULT", "value": json.dumps(fault or {})}],
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
            **spec,
        },
    }


def deployment(template: Json, replicas: int = 1) -> Json:
    """A Deployment of such a pod."""
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": template["metadata"]["name"]},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def secret_that_is_missing() -> Json:
    source = {"secretKeyRef": {"name": "nowhere", "key": "k"}}
    return {"env": [{"name": "PASSWORD", "valueFrom": source}]}


def cards(count: int) -> Json:
    """Resources of a container that asks for NPUs."""
    asked = {"huawei.com/Ascend910": str(count)}
    return {"resources": {"requests": asked, "limits": asked}}


def claimed(claim: str) -> Json:
    """Volumes of a pod that needs a claim."""
    source = {"persistentVolumeClaim": {"claimName": claim}}
    return {"volumes": [{"name": "models", **source}]}


def claim(name: str, storage_class: str = "") -> Json:
    """A claim that nothing binds."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def pods(light: str, registry: str) -> list[Json]:
    """One pod for each way to fail, and two that don't."""
    return [
        pod(light, name="well"),
        pod(light, name="crash", fault={"exit_at_start": 3}),
        pod(light, name="memory", fault={"leak_mb_per_s": 200}),
        pod(f"{registry}/nothing:1", name="image"),
        pod("Not::An/Image", name="wording"),
        pod(light, name="secret", container=secret_that_is_missing()),
        pod(light, name="program", container={"command": ["/nothing"]}),
        pod(light, name="npu", container=cards(1)),
        pod(light, name="node", nodeSelector={"hardware-type": "nowhere"}),
        pod(light, name="cpu", container={"resources": {"requests": {"cpu": "999"}}}),
        pod(light, name="claim-missing", **claimed("nowhere")),
        pod(light, name="claim-unbound", **claimed("unbound")),
        pod(
            light, name="slow", fault={"health_status": 503},
            container={"readinessProbe": {"httpGet": {"path": "/health", "port": 8080},
                                          "periodSeconds": 1}},
        ),
    ]  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What must be told about one pod."""

    reasons: tuple[str, ...]
    """The kubelet goes from one to the other and back."""
    what: str
    next_step: str
    final: bool = True


EXPECTED: Mapping[str, Expected] = {
    "crash": Expected(
        ("CrashLoopBackOff",), "container service ended with exit code 3", "opsctl logs"
    ),
    "memory": Expected(
        ("OOMKilled",),
        "container service used more memory than its limit of 32Mi",
        "Raise resources.memory_mb",
    ),
    "image": Expected(
        ("ErrImagePull", "ImagePullBackOff"), "/nothing:1: not found", "Check app.image"
    ),
    "wording": Expected(
        ("InvalidImageName",), "(Not::An/Image)", "Write app.image as NAME@sha256:DIGEST"
    ),
    "secret": Expected(
        ("CreateContainerConfigError",),
        'container service: secret "nowhere" not found',
        "Make the Secret",
    ),
    "program": Expected(
        ("RunContainerError", "CrashLoopBackOff"), "stat /nothing: no such file or directory", ""
    ),
    "npu": Expected(
        ("FailedScheduling",),
        "0/1 nodes are available: 1 Insufficient huawei.com/Ascend910",
        "Free huawei.com/Ascend910",
    ),
    "node": Expected(
        ("FailedScheduling",),
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
        "Label the nodes",
    ),
    "cpu": Expected(
        ("FailedScheduling",),
        "0/1 nodes are available: 1 Insufficient cpu",
        "See: kubectl describe nodes",
        final=False,
    ),
    "claim-missing": Expected(
        ("ClaimMissing",),
        '0/1 nodes are available: persistentvolumeclaim "nowhere" not found',
        "Make the claim nowhere",
    ),
    "claim-unbound": Expected(
        ("ClaimUnbound",),
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims",
        "Bind it",
    ),
    "slow": Expected(
        ("Unhealthy",),
        "Readiness probe failed: HTTP probe failed with statuscode: 503",
        "opsctl logs",
        final=False,
    ),
}

REFUSED: Mapping[str, tuple[str, str]] = {
    "quota": ("QuotaExceeded", "exceeded quota: none, requested: pods=1, used: pods=0"),
    "security": ("PodSecurityRefused", 'violates PodSecurity "restricted:latest"'),
    "webhook": ("WebhookRefused", 'webhook "no.opsctl.test" denied the request: not today'),
    "down": ("WebhookFailed", 'failed calling webhook "down.opsctl.test"'),
    "policy": ("PolicyRefused", "denied request: not this one"),
    "class": ("RuntimeClassMissing", 'RuntimeClass "nowhere" not found'),
    "range": ("LimitRangeRefused", "maximum memory usage per Container is 64Mi"),
}
"""Deployments whose pods can't be made: reason, and what is told."""


def quota() -> Json:
    """No pod at all."""
    spec = {"hard": {"pods": "0"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": spec}


def limit_range() -> Json:
    """Containers may have 64 MiB."""
    spec = {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "little"}, "spec": spec}


def refused(light: str) -> list[Json]:
    """Deployments whose pods the API server does not take."""
    volume = {"name": "driver", "hostPath": {"path": "/usr"}}
    much = {"resources": {"limits": {"memory": "65Mi"}}}
    return [
        deployment(pod(light, name="security", volumes=[volume])),
        deployment(pod(light, name="webhook")),
        deployment(pod(light, name="down")),
        deployment(pod(light, name="policy")),
        deployment(pod(light, name="class", runtimeClassName="nowhere")),
        deployment(pod(light, name="range", container=much)),
    ]


def admission(prefix: str, namespace: str, url: str, certificate: bytes) -> list[Json]:
    """Two webhooks and a policy for the pods `webhook`, `down` and `policy` of a namespace."""
    bundle = base64.b64encode(certificate).decode()
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }

    def webhook(name: str, app: str, where: str) -> Json:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 2,
            "clientConfig": {"url": where, "caBundle": bundle},
            "rules": [rule],
            "namespaceSelector": here,
            "objectSelector": {"matchLabels": {"app": app}},
        }

    # Port 9 (discard) is where nobody listens.
    nobody = f"{url.rpartition(':')[0]}:9/"
    group = "admissionregistration.k8s.io/v1"
    constraints = {
        "resourceRules": [rule],
        "namespaceSelector": here,
        "objectSelector": {"matchLabels": {"app": "policy"}},
    }
    return [
        {
            "apiVersion": group,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": prefix},
            "webhooks": [
                webhook("no.opsctl.test", "webhook", url),
                webhook("down.opsctl.test", "down", nobody),
            ],
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": prefix},
            "spec": {
                "matchConstraints": constraints,
                "validations": [{"expression": "false", "message": "not this one"}],
            },
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": prefix},
            "spec": {"policyName": prefix, "validationActions": ["Deny"]},
        },
    ]
