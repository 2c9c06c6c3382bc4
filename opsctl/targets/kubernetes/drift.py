"""What differs between the objects that Helm made and those that are there now.

The server itself says what it would make of the manifest (a dry run of an apply), so defaults and
spellings of quantities are no differences. What others added stands beside it: the server keeps a
record of who owns which field (`managedFields`; "Server-Side Apply" in Kubernetes' documentation).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from opsctl.model import Json
from opsctl.redact import MASK, hide_by_name
from opsctl.targets.kubernetes.api import Missing
from opsctl.targets.kubernetes.helm import decoded
from opsctl.targets.target import Drift

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.names import Names
    from opsctl.targets.kubernetes.target import KubernetesTarget

OWN_MANAGERS = frozenset({"helm", "Helm", "opsctl"})
CONTROLLERS = frozenset(
    {"cloud-controller-manager", "kube-controller-manager", "kube-scheduler", "kubelet"}
)
"""They write what nobody has to undo: revisions of a Deployment, replicas for an autoscaler."""

IGNORED = frozenset(
    {
        "status",
        "metadata.managedFields",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.uid",
        "metadata.creationTimestamp",
    }
)
HELMS_OWN = "metadata.annotations.meta.helm.sh/"
"""Helm adds these when it applies; they stand in no manifest."""

LABEL_KEYS = ("name", "mountPath", "containerPort", "port", "topologyKey", "ip", "key", "type")
"""What tells the entries of a list, as the server's own merge keys do."""


LEFT_OVER = ("deployments", "services", "poddisruptionbudgets")
"""Kinds of which an object that Helm no longer knows would still take room or traffic."""


class Asks(Protocol):
    """What is needed of the cluster's API."""

    def get(self, path: str, **query: Any) -> Json:
        """An object. Raises Missing."""

    def apply(self, path: str, body: Json, **query: Any) -> Json:
        """What a server-side apply makes of an object."""


class Kinds:
    """Where the API has objects of a kind, asked once for each group."""

    def __init__(self, api: Asks) -> None:
        self._api = api
        self._known: dict[str, list[Json]] = {}

    def path(self, one: Mapping[str, Any], namespace: str) -> str:
        """URL path of an object. Raises Missing for a kind that the cluster does not have."""
        version = str(one["apiVersion"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._known:
            self._known[version] = self._api.get(root)["resources"]
        for resource in self._known[version]:
            if resource["kind"] == one["kind"] and "/" not in resource["name"]:
                space = f"/namespaces/{namespace}" if resource["namespaced"] else ""
                return f"{root}{space}/{resource['name']}/{one['metadata']['name']}"
        raise Missing(f"the cluster has no {one['kind']} of {version}")


def of_target(target: KubernetesTarget) -> list[Drift]:
    """All of it for the service of a target. Raises TargetUnreachable."""
    import yaml

    api, names = target.api, target.names
    chosen = f"owner=helm,name={names.service},status=deployed"
    records = api.get(names.path("secrets"), labelSelector=chosen)["items"]
    if not records:
        return []
    text = decoded(max(records, key=lambda one: int(one["metadata"]["labels"]["version"])))
    manifest = [one for one in yaml.safe_load_all(text["manifest"]) if one]
    known = {(one["kind"], one["metadata"]["name"]) for one in manifest}
    return [*drift(api, manifest, names.namespace), *left_over(api, names, known)]


def left_over(api: Asks, names: Names, known: Collection[tuple[str, str]]) -> Iterator[Drift]:
    """Objects with the service's labels that are in no manifest."""
    for plural in LEFT_OVER:
        answer = api.get(names.path(plural), labelSelector=names.installed)
        kind = str(answer["kind"]).removesuffix("List")
        for one in answer["items"]:
            if (kind, one["metadata"]["name"]) not in known:
                yield Drift(f"{kind} {one['metadata']['name']}", "", None, "there")


def drift(api: Asks, manifest: Iterable[Json], namespace: str) -> Iterator[Drift]:
    """Every difference of every object that Helm made. Raises TargetUnreachable."""
    kinds = Kinds(api)
    for one in manifest:
        name = f"{one['kind']} {one['metadata']['name']}"
        try:
            path = kinds.path(one, namespace)
            live = api.get(path)
        except Missing:
            yield Drift(name, "", "there", None)
            continue
        made = api.apply(path, one, dryRun="All", force="true")
        yield from differences(name, one, made, live)


def differences(name: str, manifest: Json, made: Json, live: Json) -> Iterator[Drift]:
    """What the live object has in place of what applying the manifest makes, and what it has more.

    An addition of somebody else stays when Helm applies, so it is told by its owner.
    """
    owners = dict(foreign(live))
    written, wanted, found = leaves(manifest), leaves(made), leaves(live)
    for path in sorted({*wanted, *found}):
        before, now = wanted.get(path), found.get(path)
        if path in owners and path not in written:
            before = None
        if before != now and not ignored(path):
            shown = [hidden(name, path, value) for value in (before, now)]
            yield Drift(name, path, shown[0], shown[1], owners.get(path, ""))


def ignored(path: str) -> bool:
    """Whether a path is the server's own, or Helm's."""
    head = path.split(".", 1)[0]
    return head in IGNORED or path in IGNORED or path.startswith(HELMS_OWN)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value that has no parts, by its path; entries of lists by what tells them."""
    if path in IGNORED:
        return {}
    if isinstance(value, Mapping) and value:
        parts = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, list) and value:
        parts = [(f"{path}[{label(part, n)}]", unlabelled(part)) for n, part in enumerate(value)]
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for where, part in parts:
        found.update(leaves(part, where))
    return found


def label(part: Any, index: int) -> str:
    """What tells an entry of a list from the others."""
    key = label_key(part)
    return str(part[key]) if key else str(index)


def label_key(part: Any) -> str:
    """Which of its fields that is; empty where there is none."""
    if not isinstance(part, Mapping):
        return ""
    return next((key for key in LABEL_KEYS if key in part), "")


def unlabelled(part: Any) -> Any:
    """An entry without what its path tells already."""
    key = label_key(part)
    if not key or len(part) == 1:
        return part
    return {name: value for name, value in part.items() if name != key}


def foreign(live: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Paths that somebody other than Helm and the cluster's controllers wrote, and who."""
    for entry in live["metadata"].get("managedFields") or ():
        manager = entry.get("manager", "")
        if manager in OWN_MANAGERS | CONTROLLERS or entry.get("subresource") == "status":
            continue
        found = leaves(live)
        for path in owned(entry.get("fieldsV1") or {}):
            # A whole map or list may be owned at once.
            for leaf in found:
                if leaf == path or leaf.startswith((f"{path}.", f"{path}[")):
                    yield leaf, manager


def owned(fields: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of a `fieldsV1`, spelled as `leaves` spells them."""
    for step, below in fields.items():
        kind, _, rest = step.partition(":")
        if kind == "f":
            here = f"{path}.{rest}" if path else rest
        elif kind == "k":
            here = f"{path}[{label(json.loads(rest), 0)}]"
        else:
            # "." is the map itself; "v:" and "i:" are entries of a list that is told as a whole.
            continue
        if any(not one.startswith((".", "v:", "i:")) for one in below):
            yield from owned(below, here)
        else:
            yield here


def hidden(name: str, path: str, value: Any) -> Any:
    """A value as people may see it."""
    if value is None:
        return None
    head, _, last = path.rpartition(".")
    if name.startswith("Secret ") and path.startswith(("data.", "stringData.")):
        return MASK
    variable = head.rpartition("[")[2].rstrip("]") if last == "value" else last
    return hide_by_name(value, variable)
