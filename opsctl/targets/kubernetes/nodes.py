"""Preflight of the nodes: their NPUs, drivers and room for the fullest state of a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opsctl.images.matrix import read_matrix
from opsctl.images.versions import version_key
from opsctl.model import Finding, Json
from opsctl.targets.kubernetes import capacity
from opsctl.targets.kubernetes.capacity import Demand, Room, plain
from opsctl.targets.kubernetes.reasons import NPU_DOMAIN

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.api import Api
    from opsctl.targets.kubernetes.preflight import Case

PAGE = 500
"""Objects an answer; a cluster may have thousands of nodes."""

FEW_NODES = 20
"""So many nodes are asked for their pods one by one, without reading all pods of the cluster."""

DRIVER = "huawei.com/driver.version"
"""Label of the device plugin (MindCluster)."""

NO_SURGE = (
    "Set strategy.type: recreate (there is no room for two releases), run fewer replicas, or free"
    " the nodes."
)


def check(case: Case) -> Iterator[Finding]:
    """Whether nodes for these pods are there, what they have, and whether there is room."""
    wanted = capacity.demand(case.pod)
    api = case.target.api
    yield from _quota(case, wanted)
    selector = ",".join(f"{key}={value}" for key, value in wanted.selector.items())
    found = list(pages(api, "/api/v1/nodes", labelSelector=selector))
    if not found:
        yield _no_nodes(wanted, list(pages(api, "/api/v1/nodes")))
        return
    allowed = [node for node in found if not capacity.obstacle(wanted, node)]
    yield from _resources(wanted, found, allowed)
    yield from _drivers(case, allowed)
    yield _room(case, capacity.room(wanted, found, _pods(api, allowed)))


def pages(api: Api, path: str, **query: Any) -> Iterator[Json]:
    """All objects of a list, a page at a time."""
    more = ""
    while True:
        answer = api.get(path, limit=PAGE, **query, **({"continue": more} if more else {}))
        yield from answer["items"]
        more = answer["metadata"].get("continue", "")
        if not more:
            return


def _pods(api: Api, nodes: Sequence[Json]) -> Iterator[Json]:
    if len(nodes) > FEW_NODES:
        yield from pages(api, "/api/v1/pods")
        return
    for node in nodes:
        yield from pages(
            api, "/api/v1/pods", fieldSelector=f"spec.nodeName={node['metadata']['name']}"
        )


def _no_nodes(wanted: Demand, everything: Sequence[Json]) -> Finding:
    step = "Label the nodes, or change kubernetes.node_selector and kubernetes.npu.node_labels."
    labels = ", ".join(f"{key}={value}" for key, value in wanted.selector.items())
    lacking = Counter(
        f"{key}={value}"
        for node in everything
        for key, value in wanted.selector.items()
        if (node["metadata"].get("labels") or {}).get(key) != value
    )
    told = ", ".join(f"{label} is missing on {count}" for label, count in lacking.most_common())
    said = f"none of {len(everything)} nodes has the labels {labels} ({told})"
    return Finding("nodes", "fail", said, step)


def _resources(wanted: Demand, found: Sequence[Json], allowed: Sequence[Json]) -> Iterator[Finding]:
    """Whether an empty node would do; a wrong name of the NPU's resource is the usual cause."""
    if not allowed:
        why = Counter(capacity.obstacle(wanted, node) for node in found)
        told = ", ".join(f"{count} {cause}" for cause, count in why.most_common())
        step = "Bring the nodes back (kubectl uncordon, kubectl describe node), or add tolerations."
        yield Finding("nodes", "fail", f"no node may be used: {told}", step)
        return
    for name, most in capacity.lacking(wanted, allowed).items():
        asked = plain(wanted.requests[name])
        said = f"a replica asks for {asked} {name}, and no node has more than {plain(most)}"
        step = "Ask for less (kubernetes.cpu, memory_mb, npu.count), or add larger nodes."
        others = capacity.resources_of(allowed, NPU_DOMAIN)
        if name.startswith(NPU_DOMAIN) and not most:
            said = f"no node has {name}; they have {', '.join(others) or 'no NPU resource at all'}"
            step = (
                "Set kubernetes.npu.chip or kubernetes.npu.resource to what they have."
                if others
                else "Install the Ascend device plugin, and see its log."
            )
        yield Finding("node resources", "fail", said, step)
    npus = [name for name in wanted.requests if name.startswith(NPU_DOMAIN)]
    yield Finding("nodes", "ok", f"{len(allowed)} may be used{_named(npus)}")


def _named(npus: Sequence[str]) -> str:
    return f", with {', '.join(npus)}" if npus else ""


def _drivers(case: Case, allowed: Sequence[Json]) -> Iterator[Finding]:
    """The nodes' drivers against the CANN of the image."""
    build = case.target.project.service.build
    if build is None or build.cann is None or not allowed:
        return
    cann = build.cann.version
    row = read_matrix().cann.get(cann)
    if row is None or not row["drivers"]:
        yield Finding("driver", "unknown", f"the matrix names no driver for CANN {cann}")
        return
    yield driver_finding(cann, str(row["drivers"][-1]), allowed)


def driver_finding(cann: str, least: str, allowed: Sequence[Json]) -> Finding:
    """What the nodes' drivers are for a version of CANN that needs `least`."""
    drivers = {
        node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(DRIVER, "")
        for node in allowed
    }
    told = [version for version in drivers.values() if version]
    old = {
        name: version for name, version in drivers.items()
        if version and version_key(version) < version_key(least)
    }  # fmt: skip
    if old:
        name, version = next(iter(old.items()))
        said = f"CANN {cann} needs driver {least} or newer; node {name} has {version}"
        step = "Update the driver of those nodes, or take an older CANN (build.cann.version)."
        return Finding("driver", "fail", f"{said} ({len(old)} such nodes)", step)
    if not told:
        return Finding("driver", "unknown", f"no node has the label {DRIVER}")
    return Finding("driver", "ok", f"{len(told)} nodes have {least} or newer, as CANN {cann} needs")


def _room(case: Case, room: Room) -> Finding:
    own = len(case.target.view.look().pods)
    more = max(0, case.replicas - own)
    said = f"{more} more replicas at the fullest, room for {room.free}"
    if more <= room.free:
        return Finding("room", "ok", said)
    if case.target.project.service.strategy.type == "recreate":
        return Finding("room", "fail", said, "Run fewer replicas, or free the nodes.")
    return Finding("room", "fail", said, NO_SURGE)


def _quota(case: Case, wanted: Demand) -> Iterator[Finding]:
    quotas: Mapping[str, Any] = case.target.api.get(
        f"/api/v1/namespaces/{case.target.names.namespace}/resourcequotas"
    )
    more = max(0, case.replicas - len(case.target.view.look().pods))
    over = capacity.over_quota(wanted, more, quotas["items"])
    if over:
        step = "Raise the ResourceQuota, run fewer replicas, or set strategy.type: recreate."
        yield Finding("quota", "fail", "; ".join(over), step)
