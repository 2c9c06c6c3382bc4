"""Where users reach a service of the cluster, as this machine sees it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint, Json
from opsctl.targets.kubernetes.api import Missing

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces"
DEFAULT_PORT = 80
KNOWN_S = 10.0
"""So long a Gateway's address is taken to stay the same: looking shall cost no request."""


def door(target: KubernetesTarget) -> Endpoint:
    """The front door. Raises TargetUnreachable while it has no address."""
    given = _given(target)
    if given is not None:
        return given
    return door_of(target, target.view.services.get(target.names.service))


def door_of(target: KubernetesTarget, front: Json | None) -> Endpoint:
    """The front door of a front Service. Raises TargetUnreachable while it has no address."""
    given = _given(target)
    if given is not None:
        return given
    name = target.names.service
    if target.mode == "route":
        host, port = _gateway(target)
        return Endpoint(host, port, name=name)
    if front is None:
        raise _no_address("its Service is not there yet")
    spec = front["spec"]
    port = spec["ports"][0]
    if spec["type"] == "NodePort":
        return Endpoint(_node(target), int(port["nodePort"]), name=name)
    if spec["type"] == "LoadBalancer":
        balancer = (front.get("status") or {}).get("loadBalancer") or {}
        for way in balancer.get("ingress") or ():
            host = way.get("ip") or way.get("hostname")
            if host:
                return Endpoint(host, int(port["port"]), name=name)
        raise _no_address("its load balancer has no address yet")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        host = f"{name}.{target.names.namespace}"
        return Endpoint(host, int(port["port"]), name=name)
    raise _no_address("a Service of type ClusterIP is only reached from inside the cluster")


def _given(target: KubernetesTarget) -> Endpoint | None:
    address = target.settings.address
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    return Endpoint(host, int(port), name=target.names.service)


def _node(target: KubernetesTarget) -> str:
    """A node that runs a replica: each node answers on a NodePort."""
    for pod in target.view.pods.all():
        if host := (pod.get("status") or {}).get("hostIP"):
            return str(host)
    raise _no_address("no replica is on a node yet")


def _gateway(target: KubernetesTarget) -> tuple[str, int]:
    known = target.known_gateway
    if known is None or time.monotonic() - known[0] > KNOWN_S:
        known = target.known_gateway = (time.monotonic(), _asked_gateway(target))
    return known[1]


def _asked_gateway(target: KubernetesTarget) -> tuple[str, int]:
    wanted = target.settings.gateway
    namespace = wanted.namespace or target.names.namespace
    try:
        gateway = target.api.get(f"{GATEWAYS}/{namespace}/gateways/{wanted.name}")
    except Missing as error:
        raise _no_address(f"there is no Gateway {wanted.name} in {namespace}") from error
    listeners = gateway["spec"]["listeners"]
    chosen = [one for one in listeners if wanted.section in (None, one["name"])]
    for address in (gateway.get("status") or {}).get("addresses") or ():
        return str(address["value"]), int((chosen or listeners)[0].get("port", DEFAULT_PORT))
    raise _no_address(f"the Gateway {wanted.name} has no address yet")


def _no_address(why: str) -> TargetUnreachable:
    return TargetUnreachable(
        "the service has no address that this machine can ask", why=why,
        next_step="Set kubernetes.address to HOST:PORT where users reach it",
    )  # fmt: skip
