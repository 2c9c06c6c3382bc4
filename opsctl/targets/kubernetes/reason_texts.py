"""The one place where words of Kubernetes are read: why a pod has no node, or could not be made.

Neither the scheduler nor the API server says it in any other way. Source of the words:
kube-scheduler's plug-ins (pkg/scheduler) and the API server's admission, Kubernetes 1.30 to 1.34;
the tests make each on a real node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"^\d+/\d+ nodes are available: (.*)$", re.DOTALL)
_PART = re.compile(r"^(?:(\d+) )?(.*)$", re.DOTALL)
_INSUFFICIENT = re.compile(r"^Insufficient (\S+)$")
_CLAIM_MISSING = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
# Commas also stand inside of taints: {key: value}.
_COMMA = re.compile(r", (?![^{]*\})")


@dataclass(frozen=True)
class Obstacle:
    """One cause that keeps a pod from the nodes."""

    kind: str
    """resource · selector · claim · claim-unbound · volume · other"""
    what: str
    nodes: int = 0
    """How many nodes it holds for; 0 where it holds for the pod itself."""


def obstacles(message: str) -> tuple[Obstacle, ...]:
    """What the condition PodScheduled names, in its order; empty where nothing is understood."""
    head = _HEAD.match(message.partition(". ")[0].strip())
    if not head:
        return tuple(_of_claim(message))
    return tuple(_obstacle(part) for part in _COMMA.split(head[1].rstrip(".")))


def _of_claim(message: str) -> Iterator[Obstacle]:
    missing = _CLAIM_MISSING.search(message)
    if missing:
        yield Obstacle("claim", missing[1])


def _obstacle(part: str) -> Obstacle:
    counted = _PART.match(part.strip())
    assert counted
    nodes, said = int(counted[1] or 0), counted[2]
    insufficient, missing = _INSUFFICIENT.match(said), _CLAIM_MISSING.search(said)
    if insufficient:
        return Obstacle("resource", insufficient[1], nodes)
    if missing:
        return Obstacle("claim", missing[1], nodes)
    kinds = (kind for words, kind in SCHEDULING if words in said)
    return Obstacle(next(kinds, "other"), said, nodes)


SCHEDULING: tuple[tuple[str, str], ...] = (
    ("unbound immediate PersistentVolumeClaims", "claim-unbound"),
    ("didn't find available persistent volumes to bind", "claim-unbound"),
    ("didn't match Pod's node affinity/selector", "selector"),
    ("didn't match PersistentVolume's node affinity", "volume"),
    ("bound to non-existent pv(s)", "volume"),
)
"""Words of a part of the message, and its kind. A new cause is a new row."""

CREATION: tuple[tuple[str, str, str], ...] = (
    (
        "exceeded quota",
        "QuotaExceeded",
        "Raise the ResourceQuota that is named, run fewer replicas, or set kubernetes.surge: false",
    ),
    (
        "failed quota",
        "QuotaExceeded",
        "Set what the ResourceQuota that is named asks every pod for",
    ),
    (
        "violates PodSecurity",
        "PodSecurityRefused",
        "Set kubernetes.npu.driver: runtime, or allow privileged pods in the namespace",
    ),
    (
        "denied the request",
        "WebhookRefused",
        "Change what the admission webhook that is named refuses, or ask its owner",
    ),
    (
        "denied request",
        "PolicyRefused",
        "Change what the admission policy that is named refuses, or ask its owner",
    ),
    (
        "failed calling webhook",
        "WebhookFailed",
        "See whether the Service of the webhook that is named answers",
    ),
    (
        "RuntimeClass",
        "RuntimeClassMissing",
        "Make the RuntimeClass (kubectl get runtimeclass), or unset kubernetes.npu.runtime_class",
    ),
    (
        "no PriorityClass",
        "PriorityClassMissing",
        "Make the PriorityClass, or leave priorityClassName out",
    ),
    (
        " usage per ",
        "LimitRangeRefused",
        "Change kubernetes.cpu or memory_mb so that it fits the LimitRange of the namespace",
    ),
)
"""Words of an admission plug-in's refusal, what it is called here, and what to do."""

HEALING = frozenset({"WebhookFailed"})
"""Refusals that may end by themselves."""


def refusal(message: str) -> tuple[str, str]:
    """Name and next step for the message of a pod that could not be made."""
    for words, name, next_step in CREATION:
        if words in message:
            return name, next_step
    return "FailedCreate", "See: kubectl describe replicaset"
