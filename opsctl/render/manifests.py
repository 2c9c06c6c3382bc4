"""Kubernetes objects from manifests/kubernetes/*.yaml.j2: the same that the chart makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

from opsctl.model import Json
from opsctl.render import chart_values, npu
from opsctl.render.chart_values import refused
from opsctl.resources import template_path

FILES = (
    "serviceaccount",
    "configmap",
    "runtimeclass",
    "deployment",
    "service",
    "disruption",
    "networkpolicy",
    "autoscaler",
    "route",
    "monitoring",
)
"""In an order in which they can be applied: what pods need first."""

DEFAULT_REPLICAS = 3
HASH_DIGITS = 10


@dataclass(frozen=True)
class Place:
    """Where objects go, and who says that they are his."""

    namespace: str
    instance: str
    managed_by: str = "opsctl"
    has_routes: bool = False
    """Whether the cluster has the Gateway API (for traffic.mode auto)."""


def render(values: Mapping[str, Any], place: Place) -> str:
    """All objects as one YAML text. Raises ConfigError for values that make no sense."""
    whole = chart_values.coalesce(values)
    context = context_of(whole, place)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: template_path(f"kubernetes/{name}").read_text()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["yaml"] = as_yaml
    texts = (environment.get_template(f"{name}.yaml.j2").render(context) for name in FILES)
    return "".join(as_documents(text) for text in texts)


def as_documents(text: str) -> str:
    """The text of a template with the mark of a document before it; empty when it made none."""
    text = text.strip()
    if not text:
        return ""
    return text + "\n" if text.startswith("---") else f"---\n{text}\n"


def as_yaml(value: object) -> str:
    """A value on one line: JSON, which is YAML."""
    return json.dumps(value, ensure_ascii=False)


def context_of(values: Json, place: Place) -> Json:
    """What the templates are filled with: the values, and what follows from them."""
    service = values["service"] or place.instance
    mode = values["traffic"]["mode"]
    if mode == "auto":
        mode = "route" if place.has_routes else "selector"
    chart_values.check(values, mode)
    labels = {
        "app.kubernetes.io/name": service,
        "app.kubernetes.io/instance": place.instance,
        "app.kubernetes.io/managed-by": place.managed_by,
    }
    return {
        **values,
        "service": service,
        "namespace": place.namespace,
        "mode": mode,
        "labels": labels,
        "monitor_labels": {**labels, **values["monitoring"]["labels"]},
        "account": values["serviceAccount"]["name"] or service,
        "front_annotations": {**stamp(values["state"]), **values["front"]["annotations"]},
        "front_selector": front_selector(service, values["releases"], mode),
        "releases": [
            Release(service, labels, release, chart_values.pod_settings(values, release))
            for release in values["releases"]
        ],
    }


def stamp(state: Mapping[str, Any]) -> Json:
    """Who ordered the state, as annotations."""
    return {f"opsctl/{name}": str(state[name]) for name in ("epoch", "sequence", "digest")}


def front_selector(service: str, releases: list[Json], mode: str) -> Json:
    """Labels that the front Service selects.

    Two releases share it where one was made to follow the other; neither a candidate that is not
    proved nor an old release that is kept warm is in it by accident. Raises ConfigError.
    """
    name = {"app.kubernetes.io/name": service}
    weighted = [release for release in releases if release.get("weight")]
    if not weighted:
        return {**name, "opsctl/release": "none"}
    if mode == "route" or len(weighted) == 1:
        most = max(weighted, key=lambda release: int(release["weight"]))
        return {**name, "opsctl/release": most["name"], "opsctl/role": "serving"}
    if len(weighted) > 2:
        raise refused("traffic.mode selector can share traffic between two releases, not more")
    first, last = weighted
    for release, base in ((last, first), (first, last)):
        if release.get("base") == base["name"]:
            return {**name, f"opsctl/joins-{base['name']}": "true"}
    raise refused(
        f"releases {first['name']} and {last['name']} can't share the Service: neither has the"
        " other as its base"
    )


class Release:
    """One release as the templates see it."""

    def __init__(self, service: str, labels: Json, release: Json, settings: Json) -> None:
        self.settings = settings
        self.name: str = release["name"]
        self.role: str = release.get("role") or "serving"
        self.base: str = release.get("base") or ""
        self.image: str = release["image"]
        self.weight: int = release.get("weight") or 0
        replicas = release.get("replicas")
        self.replicas: int = DEFAULT_REPLICAS if replicas is None else replicas
        self.least: int = replicas or 1
        self.object = f"{service}-{self.name}{'-baseline' if self.role == 'baseline' else ''}"
        self.labels = {**labels, "opsctl/release": self.name, "opsctl/role": self.role}
        self.instance = labels["app.kubernetes.io/instance"]
        self.selector = {
            "app.kubernetes.io/name": service,
            "opsctl/release": self.name,
            "opsctl/role": self.role,
        }
        self.npu = bool(settings["npu"]["chip"])
        self.volcano = self.npu and settings["npu"]["volcano"]["enabled"]
        self.scaled = settings["autoscaling"]["enabled"] and self.role == "serving"

    @property
    def resource(self) -> str:
        """The extended resource of its NPUs."""
        return npu.resource(self.settings["npu"])

    @property
    def on_host(self) -> bool:
        """Whether the driver comes by hostPath."""
        return self.npu and self.settings["npu"]["driver"] == "host"

    @property
    def level(self) -> str:
        """The level of pod security that it needs of its namespace."""
        return "privileged" if self.on_host else "restricted"

    @property
    def pod_labels(self) -> Json:
        """Labels of its pods."""
        labels = {**self.selector, "app.kubernetes.io/instance": self.instance}
        if self.role == "serving":
            labels.update(
                {f"opsctl/joins-{name}": "true" for name in (self.name, self.base) if name}
            )
        if self.volcano:
            labels["ring-controller.atlas"] = npu.CHIPS[self.settings["npu"]["chip"]].ring
        return {**labels, **self.settings["labels"]}

    @property
    def pod_annotations(self) -> Json:
        """Annotations of its pods."""
        annotations = {"kubectl.kubernetes.io/default-container": "service"}
        if self.volcano:
            queue = self.settings["npu"]["volcano"]["queue"]
            annotations["scheduling.volcano.sh/queue-name"] = queue
        return {**annotations, **self.settings["annotations"]}

    @property
    def node_selector(self) -> Json:
        """Labels that its nodes have."""
        own = npu.node_labels(self.settings["npu"]) if self.npu else {}
        return {**own, **self.settings["nodeSelector"]}

    @property
    def tolerations(self) -> list[Json]:
        """Nodes with accelerators are often kept free of other pods by a taint of this name."""
        given: list[Json] = self.settings["tolerations"]
        if not self.npu:
            return given
        return [{"key": self.resource, "operator": "Exists", "effect": "NoSchedule"}, *given]

    @property
    def spread(self) -> list[tuple[str, str]]:
        """Topology keys, and what to do when they can't be kept."""
        spread = self.settings["spread"]
        keys = {"kubernetes.io/hostname": "hosts", "topology.kubernetes.io/zone": "zones"}
        return [(key, spread[name]) for key, name in keys.items() if spread[name] != "off"]

    @property
    def resources(self) -> Json:
        """Requests and limits, which are the same for NPUs."""
        resources: Json = {**self.settings["resources"]}
        if self.npu:
            cards = {self.resource: str(self.settings["npu"]["count"])}
            for kind in ("requests", "limits"):
                resources[kind] = {**resources.get(kind, {}), **cards}
        return resources

    def probe(self, name: str, path: str) -> Json:
        """A probe of the health port."""
        probes = self.settings["probes"]
        return {"httpGet": {"path": probes[path], "port": "health"}, **probes[name]}

    @property
    def files_object(self) -> str:
        """Name of its ConfigMap, which tells its content."""
        text = go_json(self.settings["files"])
        return f"{self.object}-{hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]}"

    @property
    def mounts(self) -> list[Json]:
        """Where its container sees volumes."""
        mounts = [
            {"name": volume_name(path), "mountPath": path}
            for path in sorted(self.settings["writable"])
        ]
        model = self.settings["model"]
        if model["claim"]:
            mount = {"name": "models", "mountPath": model["mountPath"], "readOnly": True}
            mounts.append({**mount, **({"subPath": model["subPath"]} if model["subPath"] else {})})
        if self.settings["files"]:
            path = self.settings["filesPath"]
            mounts.append({"name": "files", "mountPath": path, "readOnly": True})
        if self.on_host:
            mounts += [
                {"name": name, "mountPath": path, "readOnly": True} for name, path, _ in npu.DRIVER
            ]
        return mounts

    @property
    def volumes(self) -> list[Json]:
        """Where they come from."""
        volumes: list[Json] = [
            {"name": volume_name(path), "emptyDir": {"sizeLimit": size}}
            for path, size in sorted(self.settings["writable"].items())
        ]
        claim = self.settings["model"]["claim"]
        if claim:
            source = {"claimName": claim, "readOnly": True}
            volumes.append({"name": "models", "persistentVolumeClaim": source})
        if self.settings["files"]:
            volumes.append({"name": "files", "configMap": {"name": self.files_object}})
        if self.on_host:
            volumes += [
                {"name": name, "hostPath": {"path": path, "type": kind}}
                for name, path, kind in npu.DRIVER
            ]
        return volumes


def volume_name(path: str) -> str:
    """Name of the volume of a folder that can be written."""
    return f"writable{path}".translate(str.maketrans("/._", "---")).lower()


def go_json(value: object) -> str:
    """JSON as Go spells it, as the chart hashes that."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
