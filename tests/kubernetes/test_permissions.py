"""The rights that opsctl needs: one table, which the printed Role and the checks are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl.targets.kubernetes import permissions
from opsctl.targets.kubernetes.guard_setup import RULES
from opsctl.targets.kubernetes.permissions import Right
from tests.helm.rendering import CASES, golden
from tests.kubernetes.projects import project

RESOURCES = {
    "ConfigMap": ("", "configmaps"),
    "Deployment": ("apps", "deployments"),
    "HTTPRoute": ("gateway.networking.k8s.io", "httproutes"),
    "HorizontalPodAutoscaler": ("autoscaling", "horizontalpodautoscalers"),
    "NetworkPolicy": ("networking.k8s.io", "networkpolicies"),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets"),
    "PrometheusRule": ("monitoring.coreos.com", "prometheusrules"),
    "Service": ("", "services"),
    "ServiceAccount": ("", "serviceaccounts"),
    "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors"),
}
"""Kinds that the chart makes of opsctl's values; a RuntimeClass is never asked for by them."""

EVERYTHING = {
    "traffic": "route",
    "monitoring": True,
    "autoscaling": {"max_replicas": 4},
    "namespace": "ai",
    "gateway": {"name": "front", "namespace": "infra"},
}


def rules(documents: list[dict[str, Any]], kind: str) -> dict[tuple[str, str], set[str]]:
    """Verbs by group and resource of a printed role."""
    role = next(one for one in documents if one["kind"] == kind)
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            found.setdefault((rule["apiGroups"][0], resource), set()).update(rule["verbs"])
    return found


def test_the_role_has_every_kind_that_the_chart_makes(tmp_path: Path) -> None:
    settings = project(tmp_path, "x", EVERYTHING).service.kubernetes
    allowed = rules(permissions.documents(settings, "route", "light"), "Role")
    made = {one["kind"] for case in CASES for one in golden(case)} - {"RuntimeClass"}
    assert made <= set(RESOURCES)
    for kind in made:
        assert set(permissions.HELM) <= allowed[RESOURCES[kind]], kind


def test_what_is_not_configured_is_not_asked_for(tmp_path: Path) -> None:
    settings = project(tmp_path, "x", {"limit_network": False}).service.kubernetes
    allowed = rules(permissions.documents(settings, "selector", "light"), "Role")
    groups = {group for group, _ in allowed}
    rbac = "rbac.authorization.k8s.io"
    assert groups == {"", "apps", "autoscaling", "coordination.k8s.io", "policy", rbac}
    assert allowed[rbac, "roles"] == {"deletecollection"}
    assert allowed["autoscaling", "horizontalpodautoscalers"] == {"list", "delete"}


def test_a_guard_gets_no_right_that_its_maker_has_not(tmp_path: Path) -> None:
    for mode in ("selector", "route"):
        settings = project(tmp_path, "x", {"guard_image": "g@sha256:1"}).service.kubernetes
        allowed = rules(permissions.documents(settings, mode, "light"), "Role")
        for rule in RULES:
            for resource in rule["resources"]:
                assert set(rule["verbs"]) <= allowed[rule["apiGroups"][0], resource], resource


def test_what_adoption_needs_stands_in_the_role_and_no_deploy_asks_for_it(tmp_path: Path) -> None:
    settings = project(tmp_path, "x", {}).service.kubernetes
    allowed = rules(permissions.documents(settings, "selector", "light"), "Role")
    assert allowed["", "pods"] == {"get", "list", "watch", "patch"}
    assert allowed["apps", "replicasets"] == {"get", "list", "watch", "create", "delete"}
    asked = permissions.needed(settings, "selector")
    verbs = {(r.resource, verb) for r in asked for verb in r.verbs}
    assert not {("pods", "patch"), ("replicasets", "create"), ("replicasets", "delete")} & verbs


def test_a_role_never_has_a_star_and_its_subject_is_its_own_account(tmp_path: Path) -> None:
    settings = project(tmp_path, "x", EVERYTHING).service.kubernetes
    documents = list(yaml.safe_load_all(permissions.role_yaml(settings, "route", "light")))
    kinds = [one["kind"] for one in documents]
    assert kinds == [
        "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
    ]  # fmt: skip
    for kind in ("Role", "ClusterRole"):
        for (group, resource), verbs in rules(documents, kind).items():
            assert "*" not in (group, resource, *verbs)
    for binding in (documents[2], documents[4]):
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "opsctl-light", "namespace": "ai"}
        ]
    # Nothing that reaches beyond the namespace changes anything.
    assert set().union(*rules(documents, "ClusterRole").values()) == {"get", "list"}


class Api:
    """A cluster that allows all but some verbs."""

    def __init__(self, refused: set[tuple[str, str, str]]) -> None:
        self.refused = refused
        self.asked: list[dict[str, str]] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        attributes = body["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        name = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
        key = (attributes["namespace"], name, attributes["verb"])
        return {"status": {"allowed": key not in self.refused}}


def test_what_is_missing_is_told_with_its_verbs_and_its_use(tmp_path: Path) -> None:
    settings = project(tmp_path, "x", {"namespace": "ai"}).service.kubernetes
    api = Api({("ai", "leases", "update"), ("ai", "pods/exec", "create"), ("", "nodes", "list")})
    needed, helpful = permissions.check(api, settings, "selector")
    assert needed.status == "fail"
    assert needed.what == (
        "not allowed in ai: update leases (lock and lease); create pods/exec (smoke commands"
        " inside a release)"
    )
    assert needed.next_step.endswith("opsctl render role | kubectl apply -f -")
    assert helpful.status == "unknown"
    assert helpful.what.startswith("not allowed in the whole cluster: list nodes")


@pytest.mark.parametrize("mode", ["selector", "route"])
def test_each_verb_of_the_table_is_asked_for_once(tmp_path: Path, mode: str) -> None:
    settings = project(tmp_path, "x", EVERYTHING).service.kubernetes
    api = Api(set())
    findings = permissions.check(api, settings, mode)
    assert [one.status for one in findings] == ["ok"]
    rights: tuple[Right, ...] = (
        *permissions.needed(settings, mode),
        *permissions.helpful(settings, mode),
    )
    assert len(api.asked) == sum(len(right.verbs) for right in rights)
    assert len({tuple(one.values()) for one in api.asked}) == len(api.asked)
