"""What stands against a desired state in a cluster, found before anything is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opsctl import shell
from opsctl.errors import BuildFailed, ConfigError, PreflightRefused, TargetUnreachable
from opsctl.images.reference import parse
from opsctl.images.registry import NotInRegistry, Registry, RegistryFailed
from opsctl.model import DesiredState, Finding, Json
from opsctl.targets.kubernetes import nodes, permissions, reasons
from opsctl.targets.kubernetes.api import Missing, Refused

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

CLUSTER_MIN = (1, 30)
"""For a sleep before a container is stopped, and evictable unhealthy pods; as the chart says."""

HELM_MIN = (3, 16)
HELM_LIMIT_S = 20.0
LEVELS = ("privileged", "baseline", "restricted")
ENFORCE = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True)
class Case:
    """All that the checks look at."""

    target: KubernetesTarget
    state: DesiredState

    @property
    def replicas(self) -> int:
        """Of the fullest state of the rollout."""
        return sum(share.replicas for share in self.state.shares)

    @cached_property
    def deployment(self) -> Json:
        """A release as it would be made."""
        return rendered(self.target)

    @property
    def pod(self) -> Json:
        """Its pods' specification."""
        spec: Json = self.deployment["spec"]["template"]["spec"]
        return spec


def preflight(target: KubernetesTarget, state: DesiredState) -> list[Finding]:
    """All findings, the good ones too; nothing is changed. A cluster that does not answer is one
    finding, and the only one about the cluster."""
    case = Case(target, state)
    found = [*_helm(case), *_image(case)]
    try:
        found += _cluster(case)
        for check in CHECKS:
            found += _asked(check.__name__.strip("_").replace("_", " "), check(case))
    except TargetUnreachable as error:
        step = error.next_step or "See: kubectl cluster-info"
        found.append(Finding("cluster", "fail", str(error).removesuffix(f". {step}"), step))
    return found


def _asked(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """What a check finds; `unknown` where this user may not look."""
    try:
        yield from findings
    except Refused as error:
        yield Finding(check, "unknown", f"cannot be told: {error.why or error.what}")


def rendered(target: KubernetesTarget) -> Json:
    """The Deployment of a release of the project as it is now."""
    import yaml

    from opsctl.render import manifests
    from opsctl.render.service_values import release_values, service_values

    image = target.project.service.app.image or "to-be-built"
    values = service_values(target.project, [release_values(target.project, "r0", image)])
    values["traffic"]["mode"] = target.mode
    place = manifests.Place(target.names.namespace, target.names.service)
    documents = yaml.safe_load_all(manifests.render(values, place))
    return next(one for one in documents if one["kind"] == "Deployment")


def _cluster(case: Case) -> Iterator[Finding]:
    version = str(case.target.api.get("/version")["gitVersion"])
    said = f"Kubernetes {version} at {case.target.api.address}"
    if numbers(version) < CLUSTER_MIN:
        least = ".".join(map(str, CLUSTER_MIN))
        yield Finding("cluster", "fail", said, f"Kubernetes {least} or newer is needed.")
    else:
        yield Finding("cluster", "ok", said)


def numbers(version: str) -> tuple[int, int]:
    """Major and minor of a version, (0, 0) when it is none."""
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _helm(case: Case) -> Iterator[Finding]:
    program = case.target.settings.helm
    step = "Install Helm 3.16 or newer (or 4), or set kubernetes.helm to its path."
    done = shell.run([program, "version", "--template", "{{.Version}}"], timeout_s=HELM_LIMIT_S)
    version = done.stdout.strip()
    if not done.ok:
        yield Finding("helm", "fail", f"{program} does not run: {done.why}", step)
    elif numbers(version) < HELM_MIN:
        yield Finding("helm", "fail", f"{program} is Helm {version or 'of no version'}", step)
    else:
        yield Finding("helm", "ok", f"Helm {version}")


def _image(case: Case) -> Iterator[Finding]:
    service = case.target.project.service
    if service.app.image is not None:
        yield _in_registry(service.app.image)
    elif service.build is None:
        said = "app.image is not set, and nothing is built"
        yield Finding("image", "fail", said, "Set app.image, or add build: to opsctl.yaml.")
    else:
        yield _built(case)


def _in_registry(name: str) -> Finding:
    """Asked from here; a node may reach a registry that this machine does not, and the reverse."""
    reference = parse(name)
    registry = Registry(reference)
    try:
        if reference.digest:
            registry.manifest(reference.digest)
        elif registry.digest_of(reference.tag or "latest") is None:
            raise NotInRegistry(f"there is no tag {reference.tag or 'latest'}")
    except NotInRegistry as error:
        step = "Push the image, or correct app.image."
        return Finding("image", "fail", f"{name} is not in its registry: {error}", step)
    except RegistryFailed as error:
        step = "Log in with docker login, if the nodes can pull it."
        return Finding("image", "unknown", f"{name}: its registry can't be asked: {error}", step)
    return Finding("image", "ok", name)


def _built(case: Case) -> Finding:
    from opsctl.images.build import planned
    from opsctl.release_store import never

    try:
        found = planned(case.target.project, never)
    except (PreflightRefused, BuildFailed, ConfigError) as error:
        return Finding("image", "fail", error.what, f"{error.why}. {error.next_step}")
    return Finding("image", "ok", found or "will be built")


def _permissions(case: Case) -> Iterator[Finding]:
    yield from permissions.check(case.target.api, case.target.settings, case.target.mode)


def _traffic(case: Case) -> Iterator[Finding]:
    target, gateway = case.target, case.target.settings.gateway
    if target.mode != "route":
        yield Finding("traffic", "ok", "by the share of replicas")
        return
    if not target.view.has_routes:
        said = "kubernetes.traffic is route, and the cluster has no HTTPRoute"
        yield Finding("traffic", "fail", said, "Install the Gateway API, or set traffic: selector.")
        return
    namespace = gateway.namespace or target.names.namespace
    path = f"/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/gateways/{gateway.name}"
    try:
        found = target.api.get(path)
    except Missing:
        said = f"there is no Gateway {namespace}/{gateway.name}"
        step = "Make it, name another in kubernetes.gateway, or set traffic: selector."
        yield Finding("traffic", "fail", said, step)
        return
    yield Finding("traffic", "ok", f"by weights of Gateway {namespace}/{gateway.name}")
    if gateway.mirror:
        yield _mirroring(case, str(found["spec"]["gatewayClassName"]))


MIRRORING = "HTTPRouteRequestMirror"
"""What the Gateway API calls it in the status of a GatewayClass."""


def _mirroring(case: Case, name: str) -> Finding:
    """Whether Gateways of a class can send copies of requests to a candidate."""
    found = case.target.api.get(f"/apis/gateway.networking.k8s.io/v1/gatewayclasses/{name}")
    features = (found.get("status") or {}).get("supportedFeatures") or ()
    names = {one["name"] if isinstance(one, dict) else str(one) for one in features}
    if not names:
        return Finding("mirroring", "unknown", f"GatewayClass {name} does not tell what it can do")
    if MIRRORING in names:
        return Finding("mirroring", "ok", f"GatewayClass {name} can send copies of requests")
    said = f"GatewayClass {name} has no {MIRRORING}"
    return Finding("mirroring", "fail", said, "Unset kubernetes.gateway.mirror.")


def _pod_security(case: Case) -> Iterator[Finding]:
    name = case.target.names.namespace
    needed = case.deployment["metadata"]["annotations"]["opsctl/pod-security"]
    try:
        labels = case.target.api.get(f"/api/v1/namespaces/{name}")["metadata"].get("labels") or {}
    except Missing:
        yield _new_namespace(case, name)
        return
    allowed = labels.get(ENFORCE, "privileged")
    if allowed in LEVELS and LEVELS.index(allowed) > LEVELS.index(needed):
        said = f"namespace {name} allows {allowed} pods, these are {needed}"
        step = (
            f"Set kubernetes.npu.driver: runtime, or run: kubectl label namespace {name}"
            f" {ENFORCE}={needed} --overwrite"
        )
        yield Finding("pod security", "fail", said, step)
    else:
        yield Finding("pod security", "ok", f"{needed} pods in a namespace for {allowed} ones")


def _new_namespace(case: Case, name: str) -> Finding:
    if permissions.missing(case.target.api, [permissions.NEW_NAMESPACE], ""):
        step = f"Have an administrator run: kubectl create namespace {name}"
        return Finding("namespace", "fail", f"{name} is not there, and may not be made", step)
    return Finding("namespace", "ok", f"{name} will be made")


def _nodes(case: Case) -> Iterator[Finding]:
    yield from nodes.check(case)


def _claim(case: Case) -> Iterator[Finding]:
    name = case.target.settings.model_claim
    if name is None:
        return
    api, names = case.target.api, case.target.names
    path = f"/api/v1/namespaces/{names.namespace}"
    try:
        claim = api.get(f"{path}/persistentvolumeclaims/{name}")
    except Missing:
        step = "Make it, or set kubernetes.model_claim (null: the model is in the image)."
        yield Finding("claim", "fail", f"there is no claim {name} in {names.namespace}", step)
        return
    events = api.get(f"{path}/events", fieldSelector=f"involvedObject.name={name}")["items"]
    yield _of_claim(case, claim, reasons.explain([{**claim, "kind": CLAIM}], events))


CLAIM = "PersistentVolumeClaim"


def _of_claim(case: Case, claim: Mapping[str, Any], reason: reasons.Reason | None) -> Finding:
    name, modes = claim["metadata"]["name"], claim["spec"].get("accessModes", [])
    if reason is not None and reason.final:
        return Finding(
            "claim", "fail", f"{name}: {reason.what}: {reason.last_event}", reason.next_step
        )
    told = f"{name} ({', '.join(modes)})"
    step = "Use a claim of ReadOnlyMany or ReadWriteMany, or put the model into the image."
    if modes == ["ReadWriteOncePod"] and case.replicas > 1:
        return Finding("claim", "fail", f"{told} is for one pod, not {case.replicas}", step)
    if modes == ["ReadWriteOnce"] and case.replicas > 1:
        must = case.target.settings.spread_hosts == "DoNotSchedule"
        said = f"{told} is for the pods of one node"
        return Finding("claim", "fail" if must else "warn", said, step)
    if reason is not None:
        return Finding("claim", "warn", f"{told} is bound when its first pod comes")
    return Finding("claim", "ok", told)


def _named_objects(case: Case) -> Iterator[Finding]:
    """Secrets of registries, and the Ascend runtime's class."""
    api, names, settings = case.target.api, case.target.names, case.target.settings
    for secret in settings.image_pull_secrets:
        try:
            api.get(names.path("secrets", secret))
        except Missing:
            said = f"there is no Secret {secret} in {names.namespace}"
            step = "Make it (kubectl create secret docker-registry), or name another."
            yield Finding("image_pull_secrets", "fail", said, step)
    runtime = case.pod.get("runtimeClassName")
    if runtime:
        try:
            api.get(f"/apis/node.k8s.io/v1/runtimeclasses/{runtime}")
            yield Finding("runtime class", "ok", runtime)
        except Missing:
            step = "Make it, or unset kubernetes.npu.runtime_class where it is the default."
            yield Finding("runtime class", "fail", f"there is no RuntimeClass {runtime}", step)


def _disruption(case: Case) -> Iterator[Finding]:
    """A pod that two budgets name can't be evicted, so no node of it can be drained."""
    labels = case.deployment["spec"]["template"]["metadata"]["labels"]
    budgets = case.target.api.get(case.target.names.path("poddisruptionbudgets"))["items"]
    for budget in budgets:
        own = (budget["metadata"].get("labels") or {}).get("app.kubernetes.io/instance")
        if own != case.target.names.service and selects(budget["spec"].get("selector"), labels):
            said = f"PodDisruptionBudget {budget['metadata']['name']} is for these pods too"
            step = "Delete it, or narrow its selector: of two budgets no pod can be evicted."
            yield Finding("disruption budget", "fail", said, step)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector (an empty one selects all, none selects none) takes these labels."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_matches(one, labels) for one in selector.get("matchExpressions") or ())


def _matches(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(one["key"]), one.get("values") or ()
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return answers[one["operator"]]


CHECKS = (_permissions, _traffic, _pod_security, _nodes, _claim, _named_objects, _disruption)
"""A new check is a new function and a new row."""
