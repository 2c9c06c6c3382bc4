"""What opsctl and Helm ask of a cluster: as rights to check, and as the smallest Role to give.

One table. Helm 4 applies on the server's side, which needs `patch` and, for what is not there yet,
`create`; Helm 3 patches what changed. Both read each object before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from opsctl.model import Finding, Json

if TYPE_CHECKING:
    from opsctl.config.settings import Kubernetes

ASKED_AT_ONCE = 8
GRANT = "opsctl render role | kubectl apply -f -"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WATCHED = ("get", "list", "watch")
ROUTES = "gateway.networking.k8s.io"
HELM = ("get", "list", "create", "patch", "update", "delete")
KEPT = (*WATCHED, "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Right:
    """Verbs on one kind of object."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    whole_cluster: bool = False
    """Not of the namespace alone: the optional ClusterRole has it."""


ALWAYS: tuple[Right, ...] = (
    Right("", "configmaps", KEPT, "journal, inbox and releases"),
    Right("", "secrets", KEPT, "secrets of releases, and Helm's history"),
    Right("coordination.k8s.io", "leases", KEPT, "lock and lease"),
    Right("apps", "deployments", (*HELM, "watch"), "one a release"),
    Right("", "services", (*HELM, "watch"), "front door, and one a release"),
    Right("", "serviceaccounts", HELM, "account of the pods"),
    Right("policy", "poddisruptionbudgets", HELM, "one a release"),
    Right("", "pods", WATCHED, "what runs"),
    Right("", "pods/log", ("get",), "opsctl logs, and what a failed candidate said last"),
    # Websockets open with GET; a newer API server asks for `create` too.
    Right("", "pods/exec", ("get", "create"), "smoke commands inside a release"),
    Right("", "pods/portforward", ("get", "create"), "private endpoints of replicas"),
    Right("", "pods/proxy", ("get",), "counters of requests"),
    Right("", "events", WATCHED, "why something does not come up"),
    Right("apps", "replicasets", WATCHED, "pods that quota or admission refuse"),
    Right("", "persistentvolumeclaims", ("get", "list"), "whether the models' claim is bound"),
    Right("", "resourcequotas", ("list",), "room for a surge"),
)

ADOPTING: tuple[Right, ...] = (
    Right("", "pods", ("patch",), "opsctl adopt gives pods their labels"),
    Right("apps", "replicasets", ("create", "delete"), "opsctl adopt changes the pods' owners"),
)
"""What `adopt` does beyond; the Role has it, and who never adopts is not asked for it."""

OPTIONAL: tuple[Right, ...] = (
    Right("", "nodes", ("list",), "room, NPUs and drivers of the nodes", whole_cluster=True),
    Right("", "pods", ("list",), "what others use of the nodes", whole_cluster=True),
    Right("", "namespaces", ("get",), "level of pod security", whole_cluster=True),
    Right("node.k8s.io", "runtimeclasses", ("get",), "the Ascend runtime", whole_cluster=True),
)
"""Without these the checks that need them say `unknown`, and nothing else is missing."""


NEW_NAMESPACE = Right("", "namespaces", ("create",), "the first deploy", whole_cluster=True)
"""Only where the namespace is not there yet; in no Role, as an administrator makes namespaces."""


def needed(settings: Kubernetes, mode: str) -> tuple[Right, ...]:
    """What must be allowed in the namespace; `mode` is how traffic is shared."""
    return (*ALWAYS, *_by_settings(settings, mode), *_of_guard(settings, mode))


def for_adoption(settings: Kubernetes, mode: str) -> tuple[Right, ...]:
    """What must be allowed for a service to come to opsctl and to stay: all of the Role."""
    return (*needed(settings, mode), *ADOPTING)


def helpful(settings: Kubernetes, mode: str) -> tuple[Right, ...]:
    """What the optional ClusterRole has."""
    elsewhere = settings.gateway.namespace not in (None, settings.namespace)
    gateways = (Right(ROUTES, "gateways", ("get",), "where users reach it", whole_cluster=True),)
    classes = (Right(ROUTES, "gatewayclasses", ("get",), "gateway.mirror", whole_cluster=True),)
    return (
        *OPTIONAL,
        *(gateways if mode == "route" and elsewhere else ()),
        *(classes if mode == "route" and settings.gateway.mirror else ()),
    )


def _by_settings(settings: Kubernetes, mode: str) -> Iterator[Right]:
    if settings.limit_network:
        yield Right("networking.k8s.io", "networkpolicies", HELM, "kubernetes.limit_network")
    if mode == "route":
        verbs = (*HELM, "watch")
        yield Right(ROUTES, "httproutes", verbs, "weights of releases")
        if settings.gateway.namespace in (None, settings.namespace):
            yield Right(ROUTES, "gateways", ("get",), "where users reach it")
    if settings.bench_image is not None:
        yield Right("batch", "jobs", ("get", "create", "delete"), "kubernetes.bench_image")
    scalers = HELM if settings.autoscaling is not None else ("list", "delete")
    yield Right("autoscaling", "horizontalpodautoscalers", scalers, "one a release, or none left")
    if settings.monitoring:
        for resource in ("servicemonitors", "prometheusrules"):
            yield Right("monitoring.coreos.com", resource, HELM, "kubernetes.monitoring")


def _of_guard(settings: Kubernetes, mode: str) -> Iterator[Right]:
    """Nobody may give rights that he has not himself, so those of the guard are among ours."""
    rbac = "rbac.authorization.k8s.io"
    for group, resource in (("apps", "deployments"), ("", "serviceaccounts"), (rbac, "roles"),
                            (rbac, "rolebindings")):  # fmt: skip
        yield Right(group, resource, ("deletecollection",), "`down` takes an earlier guard away")
    if settings.guard_image is None:
        return
    for resource in ("roles", "rolebindings"):
        yield Right(rbac, resource, ("get", "create", "update", "delete"), "the guard's rights")
    yield Right("apps", "deployments/scale", ("patch",), "what the guard does")
    if mode != "route":
        yield Right(ROUTES, "httproutes", ("get", "patch"), "what the guard does with a route")


class Asks(Protocol):
    """What is needed of the cluster's API."""

    def post(self, path: str, body: Json) -> Json:
        """Create an object; returns it with its status."""


def missing(api: Asks, rights: Iterable[Right], namespace: str) -> list[Right]:
    """Those rights, cut down to the verbs that this user does not have.

    Raises TargetUnreachable.
    """
    asked = [(right, verb) for right in rights for verb in right.verbs]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        answers = pool.map(lambda one: _allowed(api, one[0], one[1], namespace), asked)
        refused = [one for one, allowed in zip(asked, answers, strict=True) if not allowed]
    lacking: dict[Right, list[str]] = {}
    for right, verb in refused:
        lacking.setdefault(right, []).append(verb)
    return [
        Right(right.group, right.resource, tuple(verbs), right.why, right.whole_cluster)
        for right, verbs in lacking.items()
    ]


def _allowed(api: Asks, right: Right, verb: str, namespace: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "namespace": "" if right.whole_cluster else namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(api.post(REVIEWS, body)["status"]["allowed"])


def check(api: Asks, settings: Kubernetes, mode: str) -> list[Finding]:
    """What this user may not do; one finding for what is needed, one for what would help."""
    namespace = settings.namespace
    step = f"Have an administrator run: {GRANT}"
    lacking = missing(api, needed(settings, mode), namespace)
    unseen = missing(api, helpful(settings, mode), namespace)
    if lacking:
        what = f"not allowed in {namespace}: {told(lacking)}"
        findings = [Finding("permissions", "fail", what, step)]
    else:
        findings = [Finding("permissions", "ok", f"all that is needed in {namespace}")]
    if unseen:
        what = f"not allowed in the whole cluster: {told(unseen)}"
        findings.append(Finding("permissions of the cluster", "unknown", what, step))
    return findings


def told(rights: Sequence[Right]) -> str:
    """Verbs, resources and what they are for."""
    return "; ".join(f"{', '.join(one.verbs)} {one.resource} ({one.why})" for one in rights)


def documents(settings: Kubernetes, mode: str, service: str) -> list[Json]:
    """The Role with its ServiceAccount and binding, and the optional ClusterRole with its own."""
    name, namespace = f"opsctl-{service}", settings.namespace
    whole = f"opsctl-{namespace}-{service}"
    here = {"name": name, "namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        _role("Role", here, for_adoption(settings, mode)),
        _binding("RoleBinding", here, ("Role", name), subject),
        _role("ClusterRole", {"name": whole}, helpful(settings, mode)),
        _binding("ClusterRoleBinding", {"name": whole}, ("ClusterRole", whole), subject),
    ]


def _role(kind: str, metadata: Json, rights: Iterable[Right]) -> Json:
    """Rights with the same verbs on the same group stand together."""
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for right in rights:
        rules.setdefault((right.group, right.verbs), []).append(right.resource)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
            for (group, verbs), resources in rules.items()
        ],
    }


def _binding(kind: str, metadata: Json, role: tuple[str, str], subject: Json) -> Json:
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": role[0], "name": role[1]}
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }


def role_yaml(settings: Kubernetes, mode: str, service: str) -> str:
    """`documents` as YAML, for kubectl apply."""
    import yaml

    parts = (yaml.safe_dump(one, sort_keys=False) for one in documents(settings, mode, service))
    return "".join(f"---\n{part}" for part in parts)
