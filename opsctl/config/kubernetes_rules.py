"""What must hold between the keys for Kubernetes and compose; used by the table in `relations`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opsctl.config.problems import shown

if TYPE_CHECKING:
    from opsctl.config.compose import Compose
    from opsctl.config.kubernetes import Gateway, Kubernetes, Npu
    from opsctl.config.relations import Section

OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
LABEL_NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_RESOURCE = r"[a-z0-9.-]+/[A-Za-z0-9._-]+"
_VNPU = r"[0-9]+c(\.[0-9]+cpu)?(\.[0-9]+g)?(\.n?dvpp)?"
_HOST_NAME = r"(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_FOLDER = r"/[^\s:]+"
_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: *[!-~]([ -~]*[!-~])?"
_ADDRESS = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?:[0-9]{1,5}"


def named(at: Section, key: str, value: str | None, form: str, what: str) -> None:
    """A value must have a form; None is none of it."""
    if value is not None and not re.fullmatch(form, value):
        at.wrong(key, f'found "{shown(value)}"; allowed: {what}')


def labels(at: Section, key: str, value: Mapping[str, str]) -> None:
    """Labels must be such as Kubernetes takes."""
    for name, content in value.items():
        if not re.fullmatch(_LABEL_KEY, name) or not re.fullmatch(_LABEL_VALUE, content):
            at.wrong(
                f"{key}.{shown(name)}", "is no label of Kubernetes: [prefix/]name with a value"
            )


def npu(value: Npu, at: Section) -> None:
    """Accelerators: names as Kubernetes takes them, and nothing that excludes another."""
    named(at, "resource", value.resource, _RESOURCE, "DOMAIN/NAME, as huawei.com/Ascend910")
    named(at, "vnpu", value.vnpu, _VNPU, "a template as 2c or 4c.3cpu")
    named(at, "runtime_class", value.runtime_class, OBJECT_NAME, "the name of a RuntimeClass")
    at.filled("volcano_queue", value.volcano_queue)
    labels(at, "node_labels", value.node_labels)
    if value.vnpu is not None and value.volcano_queue is not None:
        at.wrong("vnpu", "the device plugin gives static virtual NPUs out; without volcano_queue")
    if value.chip == "none":
        for key in ("resource", "vnpu", "runtime_class", "volcano_queue"):
            if at.has(key):
                at.wrong(key, "says something about NPUs, and chip is none")


def gateway(value: Gateway, at: Section) -> None:
    """Names of a Gateway and its hosts."""
    named(at, "name", value.name, OBJECT_NAME, "the name of a Gateway")
    named(at, "namespace", value.namespace, LABEL_NAME, "the name of a namespace")
    named(at, "section", value.section, OBJECT_NAME, "the name of a listener")
    named(at, "try_header", value.try_header, _HEADER, "NAME: VALUE")
    for index, name in enumerate(value.hostnames):
        named(at, f"hostnames[{index}]", name, _HOST_NAME, "a host name, or *.DOMAIN")


def kubernetes(value: Kubernetes, at: Section) -> None:
    """Names, paths and labels; autoscaling needs a route."""
    named(at, "namespace", value.namespace, LABEL_NAME, "the name of a namespace")
    named(at, "address", value.address, _ADDRESS, "HOST:PORT")
    at.filled("context", value.context)
    at.filled("helm", value.helm)
    at.filled("guard_image", value.guard_image)
    named(at, "model_claim", value.model_claim, OBJECT_NAME, "the name of a claim")
    named(at, "model_path", value.model_path, _FOLDER, "an absolute path")
    labels(at, "node_selector", value.node_selector)
    for index, name in enumerate(value.image_pull_secrets):
        named(at, f"image_pull_secrets[{index}]", name, OBJECT_NAME, "the name of a Secret")
    for path, size in value.writable_mb.items():
        named(at, f"writable_mb.{shown(path)}", path, _FOLDER, "an absolute path")
        if size < 1:
            at.wrong(f"writable_mb.{shown(path)}", "the size is less than 1")
    if value.autoscaling is not None and value.traffic == "selector":
        at.wrong("autoscaling", "with traffic: selector the number of replicas is the share")
    if value.gateway.try_header is not None and value.traffic == "selector":
        at.wrong("gateway.try_header", "only an HTTPRoute can do that, and traffic is selector")
    if value.gateway.mirror and value.traffic == "selector":
        at.wrong("gateway.mirror", "only an HTTPRoute can do that, and traffic is selector")


def compose(value: Compose, at: Section) -> None:
    """Paths, and memory that fits its limit."""
    at.rooted("health_path", value.health_path)
    at.command("health_command", value.health_command, needed=False)
    named(at, "models", value.models, _FOLDER, "an absolute path")
    named(at, "model_path", value.model_path, _FOLDER, "an absolute path")
    named(at, "balancer_image", value.balancer_image, r"\S+", "the name of an image")
    if value.memory_reserved_mb > value.memory_limit_mb:
        at.wrong("memory_reserved_mb", "is more than memory_limit_mb")
