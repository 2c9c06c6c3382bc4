"""Whether a Deployment can be taken over as it is: what runs must be what opsctl.yaml says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsctl.errors import PreflightRefused
from opsctl.model import Json
from opsctl.targets.kubernetes import permissions
from opsctl.targets.kubernetes.api import Missing
from opsctl.targets.kubernetes.live import container_of, is_ready, settled
from opsctl.targets.kubernetes.names import RELEASE

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

PORT = "http"
"""What the chart calls the port that users' requests go to."""

HELM_NAME = "meta.helm.sh/release-name"


@dataclass(frozen=True)
class Found:
    """A Deployment that can be adopted, and its pods."""

    deployment: Json
    pods: tuple[Json, ...]
    left_alone: tuple[str, ...] = ()
    """What of the namespace still names the pods, and nobody will change."""

    @property
    def name(self) -> str:
        return str(self.deployment["metadata"]["name"])

    @property
    def replicas(self) -> int:
        return int(self.deployment["spec"]["replicas"])

    @property
    def selector(self) -> str:
        """Its labels as the API asks for them."""
        return selector_of(self.deployment)


def selector_of(deployment: Json) -> str:
    """The labels by which a Deployment knows its pods."""
    labels: dict[str, str] = deployment["spec"]["selector"].get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def find(target: KubernetesTarget, name: str, kept: bytes | None) -> Found:
    """The Deployment `name`; where an adoption was killed, what it `kept`.

    Raises PreflightRefused when it can't be adopted as it is, TargetUnreachable.
    """
    try:
        deployment = target.api.get(target.names.path("deployments", name))
    except Missing as error:
        deployment = json.loads(kept) if kept else {}
        if deployment.get("metadata", {}).get("name") != name:
            why = f"there is no such Deployment in {target.names.namespace}"
            raise _refused(name, why, "name one of kubectl get deployments") from error
        pods = _pods(target, deployment)
        return Found(deployment, pods, _left_alone(target, name, pods))
    _check(target, name, deployment)
    pods = _pods(target, deployment)
    _check_services(target, name, pods)
    return Found(deployment, pods, _left_alone(target, name, pods))


def check_rights(target: KubernetesTarget, name: str) -> None:
    """Raises PreflightRefused unless this user may do all of an adoption: half of one would leave
    pods without an owner."""
    wanted = permissions.for_adoption(target.settings, target.mode)
    lacking = permissions.missing(target.api, wanted, target.names.namespace)
    if lacking:
        why = f"not allowed in {target.names.namespace}: {permissions.told(lacking)}"
        raise _refused(name, why, f"have an administrator run: {permissions.GRANT}")


def check_image(found: Found, image: str) -> None:
    """Raises PreflightRefused unless the pods run the image that opsctl.yaml means."""
    wanted = image.rpartition("@")[2]
    for pod in found.pods:
        container = container_of(pod["spec"])
        statuses = pod["status"].get("containerStatuses") or ()
        runs = [one["imageID"] for one in statuses if one["name"] == container["name"]]
        if not any(str(one).endswith(wanted) for one in [*runs, container["image"]]):
            raise _refused(
                found.name,
                f"it runs {container['image']}, and opsctl.yaml means {image}",
                "set app.image to the image that runs",
            )


def _check(target: KubernetesTarget, name: str, deployment: Json) -> None:
    metadata, spec = deployment["metadata"], deployment["spec"]
    if RELEASE in (metadata.get("labels") or {}):
        raise _refused(name, "opsctl made it", "see opsctl status")
    helm = (metadata.get("annotations") or {}).get(HELM_NAME, target.names.service)
    if helm != target.names.service:
        why = f"Helm's release {helm} has it, and the service is called {target.names.service}"
        raise _refused(name, why, f"call the service {helm} in opsctl.yaml")
    if spec["selector"].get("matchExpressions"):
        raise _refused(name, "it selects its pods by expressions", "give it matchLabels only")
    replicas = spec.get("replicas") or 0
    if not replicas or not settled(deployment, replicas):
        raise _refused(name, "not all of its replicas are ready", "wait for kubectl rollout status")
    ports = container_of(spec["template"]["spec"]).get("ports") or ()
    if not any(port.get("name") == PORT for port in ports):
        why = f"its container has no port called {PORT}, by which the front Service goes"
        raise _refused(name, why, f"call the port {PORT} in the Deployment")


def _pods(target: KubernetesTarget, deployment: Json) -> tuple[Json, ...]:
    path = target.names.path("pods")
    found = target.api.get(path, labelSelector=selector_of(deployment))["items"]
    return tuple(pod for pod in found if is_ready(pod))


def _check_services(target: KubernetesTarget, name: str, pods: tuple[Json, ...]) -> None:
    """Users come by a Service; it must be the one that opsctl will have."""
    services = {s["metadata"]["name"]: s for s in _selecting(target, pods)}
    own, settings = target.names.service, target.settings
    if services and own not in services:
        others = ", ".join(sorted(services))
        why = f"users reach it by Service {others}, and opsctl's is {own}"
        raise _refused(name, why, f"call the service {min(services)} in opsctl.yaml")
    if own not in services:
        return
    spec = services[own]["spec"]
    if spec["type"] != settings.service_type:
        step = f"set kubernetes.service_type to {spec['type']}"
        raise _refused(name, f"Service {own} is of type {spec['type']}", step)
    ports = [int(port["port"]) for port in spec["ports"]]
    if settings.port not in ports:
        step = f"set kubernetes.port to {ports[0]}"
        raise _refused(name, f"Service {own} has port {ports[0]}, not {settings.port}", step)


def _selecting(target: KubernetesTarget, pods: tuple[Json, ...]) -> list[Json]:
    """Services that send requests to any of the pods."""
    found = target.api.get(target.names.path("services"))["items"]
    labels = [pod["metadata"].get("labels") or {} for pod in pods]

    def selects(service: Json) -> bool:
        chosen = service["spec"].get("selector") or {}
        return bool(chosen) and any(chosen.items() <= own.items() for own in labels)

    return [service for service in found if selects(service)]


def _left_alone(target: KubernetesTarget, name: str, pods: tuple[Json, ...]) -> tuple[str, ...]:
    """Other Services, autoscalers and budgets of the same pods."""
    names, api = target.names, target.api
    found = [f"Service {s['metadata']['name']}" for s in _selecting(target, pods)]
    scalers = api.get(names.path("horizontalpodautoscalers"))["items"]
    found += [
        f"HorizontalPodAutoscaler {one['metadata']['name']}"
        for one in scalers
        if one["spec"]["scaleTargetRef"]["name"] == name
    ]
    for one in api.get(names.path("poddisruptionbudgets"))["items"]:
        chosen = (one["spec"].get("selector") or {}).get("matchLabels") or {}
        if any(chosen.items() <= pod["metadata"]["labels"].items() for pod in pods):
            found.append(f"PodDisruptionBudget {one['metadata']['name']}")
    return tuple(one for one in found if one != f"Service {names.service}")


def _refused(name: str, why: str, step: str) -> PreflightRefused:
    return PreflightRefused(
        f"cannot adopt Deployment {name}", why=why,
        next_step=f"Nothing was touched. To adopt it: {step}, then run: opsctl adopt {name}",
    )  # fmt: skip
