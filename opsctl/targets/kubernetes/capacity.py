"""Room on the nodes, as the scheduler counts it: requests against what a node can give.

Pure functions over objects as the API gives them. Source: "Resource management for pods and
containers" and "Taints and tolerations" of the Kubernetes documentation, 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from opsctl.model import Json

PODS = "pods"
"""A node's resource of which every pod takes one."""

BLOCKING = ("NoSchedule", "NoExecute")

Amounts = dict[str, Decimal]


@dataclass(frozen=True)
class Demand:
    """What one replica asks of a node."""

    requests: Mapping[str, Decimal]
    selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Room:
    """The nodes that a replica may run on, and how many more each has room for."""

    slots: Mapping[str, int]
    refused: Mapping[str, str]
    """Why the other nodes are none of them."""

    @property
    def free(self) -> int:
        """Replicas more."""
        return sum(self.slots.values())


def quantity(text: object) -> Decimal:
    """A quantity of Kubernetes, as `100m`, `4Gi` or `8`."""
    from kubernetes.utils import quantity as library

    parse: Callable[[object], Decimal] = library.parse_quantity
    return parse(text)


def requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod takes of its node: its containers together, or its largest first one."""
    total: Amounts = {PODS: Decimal(1)}
    for container in spec.get("containers") or ():
        for name, amount in _asked(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in _asked(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Decimal(0)) + quantity(text)
    return total


def _asked(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(text) for name, text in texts.items()}


def demand(spec: Mapping[str, Any]) -> Demand:
    """What a pod like this asks."""
    return Demand(
        requests(spec), dict(spec.get("nodeSelector") or {}), list(spec.get("tolerations") or ())
    )


def room(wanted: Demand, nodes: Iterable[Json], pods: Iterable[Json]) -> Room:
    """How many more replicas the nodes have room for, beside all pods of the cluster."""
    used: dict[str, Amounts] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            taken = used.setdefault(node, {})
            for name, amount in requests(pod["spec"]).items():
                taken[name] = taken.get(name, Decimal(0)) + amount
    slots, refused = {}, {}
    for node in nodes:
        name = node["metadata"]["name"]
        why = obstacle(wanted, node)
        if why:
            refused[name] = why
        else:
            slots[name] = _slots(wanted, node, used.get(name, {}))
    return Room(slots, refused)


def obstacle(wanted: Demand, node: Mapping[str, Any]) -> str:
    """Why a replica may not run on a node at all; empty when it may."""
    labels = node["metadata"].get("labels") or {}
    for key, value in wanted.selector.items():
        if labels.get(key) != value:
            return f"label {key} is {labels.get(key, 'not there')}, not {value}"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in BLOCKING and not any(
            tolerates(one, taint) for one in wanted.tolerations
        ):
            return f"taint {taint['key']}"
    conditions = node.get("status", {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] != "True" for one in conditions):
        return "not ready"
    return ""


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration is for a taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not toleration.get("key") or bool(toleration["key"] == taint["key"])
    same_key = toleration.get("key") == taint["key"]
    return bool(same_key and toleration.get("value", "") == taint.get("value", ""))


def _slots(wanted: Demand, node: Mapping[str, Any], used: Amounts) -> int:
    allocatable = node.get("status", {}).get("allocatable") or {}
    counts = [
        int((quantity(allocatable.get(name, 0)) - used.get(name, Decimal(0))) // amount)
        for name, amount in wanted.requests.items()
        if amount > 0
    ]
    return max(0, min(counts))


def lacking(wanted: Demand, nodes: Iterable[Json]) -> dict[str, Decimal]:
    """Resources of which no allowed node has enough even when it is empty, and the most it has."""
    allowed = [node for node in nodes if not obstacle(wanted, node)]
    most: Amounts = {}
    for node in allowed:
        for name in wanted.requests:
            amount = quantity((node.get("status", {}).get("allocatable") or {}).get(name, 0))
            most[name] = max(most.get(name, Decimal(0)), amount)
    return {
        name: most.get(name, Decimal(0))
        for name, amount in wanted.requests.items()
        if allowed and most.get(name, Decimal(0)) < amount
    }


def resources_of(nodes: Iterable[Json], domain: str) -> list[str]:
    """Names of the extended resources of a domain that nodes have."""
    found = {
        name
        for node in nodes
        for name, amount in (node.get("status", {}).get("allocatable") or {}).items()
        if name.startswith(domain) and quantity(amount) > 0
    }
    return sorted(found)


def over_quota(wanted: Demand, more: int, quotas: Iterable[Json]) -> list[str]:
    """Which quota of the namespace `more` replicas would pass, and by what."""
    found = []
    for quota in quotas:
        status = quota.get("status", {})
        for name, text in (status.get("hard") or {}).items():
            each = wanted.requests.get(name.removeprefix("requests."))
            if each is None or name.startswith("limits."):
                continue
            left = quantity(text) - quantity((status.get("used") or {}).get(name, 0))
            if each * more > left:
                found.append(
                    f"{quota['metadata']['name']} has {plain(left)} of {name} left,"
                    f" {more} more replicas need {plain(each * more)}"
                )
    return found


def plain(amount: Decimal) -> str:
    """Without a tail of zeros or an exponent."""
    return f"{amount.normalize():f}"
