"""Why something will not come up, told at once from objects of Kubernetes and their events.

All objects are dicts as the API gives them. A reason is *final* when waiting longer is of no use;
the others explain a time-out. Source: the reasons of kubelet, scheduler and controllers, Kubernetes
1.30 to 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from opsctl.model import Finding, Json
from opsctl.targets.kubernetes.reason_texts import HEALING, Obstacle, obstacles, refusal

SHOWN_CHARS = 400
"""Of a message that others wrote; some name every node of a cluster."""

NPU_DOMAIN = "huawei.com/"
"""Of the device plugin's resources. No autoscaler is expected to bring such nodes in time."""


@dataclass(frozen=True)
class Reason:
    """What stands in the way of one object."""

    object: str
    """Kind and name, as `pod light-r2-x`."""
    reason: str
    """One word, as `CrashLoopBackOff`."""
    what: str
    next_step: str
    last_event: str = ""
    container: str = ""
    """Whose last log lines tell more; empty where no container ran."""
    previous: bool = False
    """Whether those are lines of the container's run before this one."""
    final: bool = True

    def __str__(self) -> str:
        """All of it on one line."""
        return f"{self.object}: {self._told}. {self.next_step}"

    @property
    def _told(self) -> str:
        says_more = self.last_event and self.what not in self.last_event
        event = f" (last event: {self.last_event})" if says_more else ""
        return f"{self.reason}: {self.what}{event}"

    def to_dict(self) -> Json:
        """As journal and report keep it."""
        return asdict(self)

    def finding(self) -> Finding:
        """As a check's result."""
        status: Literal["fail", "unknown"] = "fail" if self.final else "unknown"
        return Finding(self.object, status, self._told, self.next_step)


def terminal(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Finding | None:
    """Why this pod will not come up; None while it may."""
    reason = first([pod], events)
    return reason.finding() if reason else None


def first(
    objects: Iterable[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Reason | None:
    """The first final reason among pods, replica sets and claims of a namespace."""
    return next((reason for reason in all_reasons(objects, events) if reason.final), None)


def explain(
    objects: Iterable[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Reason | None:
    """The best explanation after a time-out: a final reason, else what has to be waited for."""
    found = sorted(all_reasons(objects, events), key=lambda reason: not reason.final)
    return found[0] if found else None


def all_reasons(
    objects: Iterable[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Iterator[Reason]:
    """Every reason of every object, final or not, in the order of the objects."""
    seen = list(objects)
    healing = set(_healing(seen, events))
    for one in seen:
        own = _events_of(one, events)
        for reason in READERS.get(one["kind"], _nothing)(one, own):
            final = reason.final and reason.reason not in healing
            yield replace(reason, final=final, last_event=_told(own))


def _healing(
    seen: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Reasons that are about to end by themselves."""
    if any(_is_leaving(one) for one in seen if one["kind"] == "Pod"):
        # A pod that is just going away frees cards and quota.
        yield from ("FailedScheduling", "QuotaExceeded")
    for one in seen:
        if one["kind"] == "PersistentVolumeClaim":
            own = _events_of(one, events)
            if own and own[-1].get("reason") in ("Provisioning", "ExternalProvisioning"):
                yield "ClaimUnbound"


def _nothing(_: Mapping[str, Any], __: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    return iter(())


def _is_leaving(one: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _name(one: Mapping[str, Any]) -> str:
    kinds = {"Pod": "pod", "ReplicaSet": "replica set", "PersistentVolumeClaim": "claim"}
    return f"{kinds[one['kind']]} {one['metadata']['name']}"


def _short(message: str) -> str:
    text = " ".join(message.split()).rstrip(".")
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _events_of(
    one: Mapping[str, Any], events: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The object's own, oldest first."""
    uid = one["metadata"].get("uid")
    own = [event for event in events if event.get("involvedObject", {}).get("uid") == uid]
    return sorted(own, key=_time)


def _time(event: Mapping[str, Any]) -> str:
    """RFC 3339 in UTC, which sorts as text."""
    series = event.get("series") or {}
    known = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        event["metadata"].get("creationTimestamp"),
    )
    return str(next((time for time in known if time), ""))


def _told(own: Sequence[Mapping[str, Any]]) -> str:
    if not own:
        return ""
    return _short(f"{own[-1].get('reason', '')}: {own[-1].get('message', '')}")


def _of_pod(pod: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    if _is_leaving(pod):
        return
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        yield from _of_failed(pod)
        return
    yield from _of_scheduling(pod, own)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            yield from _of_container(pod, container)
    yield from _of_waiting(pod, own)


def _of_failed(pod: Mapping[str, Any]) -> Iterator[Reason]:
    """A pod that the kubelet gave up; those of lost or full nodes are made anew elsewhere."""
    status = pod["status"]
    reason = str(status.get("reason", "Failed"))
    final = reason == "UnexpectedAdmissionError" or reason.startswith("OutOf")
    what = _short(str(status.get("message", "the pod failed")))
    yield Reason(_name(pod), reason, what, NODE_STEP, final=final)


def _of_scheduling(pod: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    conditions = pod.get("status", {}).get("conditions") or ()
    refused = [
        one for one in conditions
        if one["type"] == "PodScheduled" and one["status"] == "False"
        and one.get("reason") in ("Unschedulable", "SchedulerError")
    ]  # fmt: skip
    for condition in refused:
        message = str(condition.get("message", ""))
        grows = any(event.get("reason") == "TriggeredScaleUp" for event in own)
        reason = _worst(pod, obstacles(message))
        # The second sentence is about pods that might be thrown out for this one.
        what = _short(message.partition(". ")[0])
        yield replace(reason, what=what, final=reason.final and not grows)


def _worst(pod: Mapping[str, Any], found: Sequence[Obstacle]) -> Reason:
    """What is said about the obstacles of a pod: final only where no node will ever do."""
    name = _name(pod)
    for obstacle in found:
        if obstacle.kind in OBSTACLES:
            reason, next_step = OBSTACLES[obstacle.kind]
            # One node of the wrong kind says nothing about the others.
            final = obstacle.kind != "selector" or len(found) == 1
            return Reason(name, reason, "", next_step.format(what=obstacle.what), final=final)
        if obstacle.kind == "resource" and obstacle.what.startswith(NPU_DOMAIN):
            return Reason(name, "FailedScheduling", "", NPU_STEP.format(what=obstacle.what))
    return Reason(name, "FailedScheduling", "", WAIT_STEP, final=False)


def _of_container(pod: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Reason]:
    """Of one container that does not run, or ran out of memory just before."""
    if status.get("ready"):
        return
    waiting = status.get("state", {}).get("waiting") or {}
    ended = status.get("state", {}).get("terminated") or {}
    before = status.get("lastState", {}).get("terminated") or {}
    last = ended or before
    reason = str(waiting.get("reason", ""))
    name, container = _name(pod), str(status["name"])
    if last.get("reason") == "OOMKilled":
        what = f"container {container} used more memory than its limit of {_limit(pod, container)}"
        yield Reason(name, "OOMKilled", what, OOM_STEP, container=container, previous=not ended)
    elif reason == "CrashLoopBackOff":
        what = f"container {container} ended {_how(last)} (restarts: {status['restartCount']})"
        yield Reason(name, reason, what, CRASH_STEP, container=container, previous=True)
    elif reason in WAITING:
        image = f" ({status['image']})" if reason in IMAGE_REASONS and status.get("image") else ""
        what = _short(f"container {container}{image}: {waiting.get('message', '')}")
        yield Reason(name, reason, what, WAITING[reason])


def _how(ended: Mapping[str, Any]) -> str:
    if ended.get("signal"):
        return f"by signal {ended['signal']}"
    said = f"with exit code {ended.get('exitCode', '?')}"
    if ended.get("reason") == "StartError":
        return f"{said} before it began ({_short(str(ended.get('message', '')))})"
    return said


def _limit(pod: Mapping[str, Any], container: str) -> str:
    for one in pod.get("spec", {}).get("containers") or ():
        if one["name"] == container:
            return str(one.get("resources", {}).get("limits", {}).get("memory", "its node"))
    return "its node"


def _of_waiting(pod: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    """What a pod that is not ready waits for, by its newest warning."""
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return
    warnings = [event for event in own if event.get("reason") in WARNINGS]
    if warnings:
        reason = str(warnings[-1]["reason"])
        what = _short(str(warnings[-1].get("message", "")))
        yield Reason(_name(pod), reason, what, WARNINGS[reason], final=False)


def _of_replica_set(one: Mapping[str, Any], _: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    """Pods that could not even be made: quota, pod security, webhooks."""
    for condition in one.get("status", {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            message = str(condition.get("message", ""))
            name, next_step = refusal(message)
            final = name != "FailedCreate" and name not in HEALING
            yield Reason(_name(one), name, _short(message), next_step, final=final)


def _of_claim(claim: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound" or _is_leaving(claim):
        return
    said = str(own[-1].get("reason", "")) if own else ""
    # A class that waits for the first pod, or one whose volume is being made, is well.
    final = phase == "Lost" or said in ("FailedBinding", "ProvisioningFailed")
    what = f"the claim is {phase.lower()}, not bound"
    yield Reason(_name(claim), "ClaimUnbound", what, CLAIM_STEP, final=final)


READERS = {"Pod": _of_pod, "ReplicaSet": _of_replica_set, "PersistentVolumeClaim": _of_claim}
"""A new kind of object is a new row."""

CRASH_STEP = "Read its log: opsctl logs"
OOM_STEP = "Raise resources.memory_mb, or use less memory (fewer workers, a smaller batch)"
NODE_STEP = "See: kubectl describe node, and the log of the device plugin on that node"
NPU_STEP = (
    "Free {what} (kubectl describe nodes), run fewer replicas, or set kubernetes.surge: false"
)
WAIT_STEP = "See: kubectl describe nodes"
CLAIM_STEP = "Bind it (kubectl describe pvc), or name another kubernetes.model_claim"
IMAGE_STEP = "Check app.image, its registry and kubernetes.image_pull_secrets"

OBSTACLES: Mapping[str, tuple[str, str]] = {
    "selector": (
        "FailedScheduling",
        "Label the nodes, or change kubernetes.node_selector and kubernetes.npu.node_labels",
    ),
    "claim": ("ClaimMissing", "Make the claim {what}, or name another kubernetes.model_claim"),
    "claim-unbound": ("ClaimUnbound", CLAIM_STEP),
    "volume": ("VolumeElsewhere", "Use a volume that the chosen nodes can reach"),
}
"""Reason and next step for each kind of obstacle that does not go away."""

IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)

WAITING: Mapping[str, str] = {
    "ErrImagePull": IMAGE_STEP,
    "ImagePullBackOff": IMAGE_STEP,
    "InvalidImageName": "Write app.image as NAME@sha256:DIGEST or NAME:TAG",
    "ErrImageNeverPull": "Load the image onto the node, or let it be pulled",
    "ImageInspectError": "See the log of the container runtime on the node",
    "CreateContainerConfigError": "Make the Secret or ConfigMap (or its key) that is named",
    "CreateContainerError": "Check app.command and the mounts of the pod",
    "RunContainerError": "Check that app.command names a program of the image",
}
"""Reasons of the kubelet that no waiting ends, and what to do."""

WARNINGS: Mapping[str, str] = {
    "FailedMount": "Make what is named, or see: kubectl describe pod",
    "FailedAttachVolume": "See whether the volume hangs on another node",
    "FailedCreatePodSandBox": "Check the node's container runtime and kubernetes.npu.runtime_class",
    "Unhealthy": "Read its log: opsctl logs; see health.path and health.tries",
    "NetworkNotReady": "See the network plug-in of the node",
    "Evicted": "See: kubectl describe node",
}
"""Warnings of the kubelet that explain why a pod is not ready yet."""
