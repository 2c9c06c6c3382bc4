"""Preflight against a real API server and node: each thing that stands against a deploy is told."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.model import DesiredState, Finding, Share
from opsctl.targets.kubernetes.preflight import preflight
from opsctl.targets.kubernetes.target import KubernetesTarget
from tests.cluster.fixtures import cluster as cluster
from tests.cluster.kubernetes import Cluster, wait_until
from tests.cluster.npus import npus
from tests.kubernetes import broken
from tests.kubernetes.projects import project

pytestmark = [pytest.mark.cluster, pytest.mark.long]

FULLEST = DesiredState((Share("r1", 2, 100), Share("r2", 2, 0)))


class Yard:
    """A namespace, and preflight of a project in it."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.folder = folder

    def make(self, *objects: Any) -> None:
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        where = ["--namespace", self.namespace]
        self.cluster.kubectl("apply", "--server-side", *where, "-f", "-", given=given)

    def findings(self, kubernetes: dict[str, Any], **service: Any) -> dict[str, Finding]:
        """Findings by their check."""
        helm = self.cluster.variables["CLUSTER_HELM4"]
        settings = {"namespace": self.namespace, "helm": helm, **kubernetes}
        target = KubernetesTarget(project(self.folder, self.cluster.image, settings, **service))
        return {finding.check: finding for finding in preflight(target, FULLEST)}


@pytest.fixture
def yard(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("KUBECONFIG", cluster.variables["KUBECONFIG"])
    with cluster.namespace(f"t-{secrets.token_hex(4)}") as namespace:
        yield Yard(cluster, namespace, tmp_path)


def test_nothing_stands_against_a_service_that_fits(yard: Yard) -> None:
    found = yard.findings({})
    assert [one for one in found.values() if one.status == "fail"] == []
    assert found["helm"].what.startswith("Helm v4.")
    assert found["cluster"].what.startswith("Kubernetes v1.34.4 at https://")
    assert found["permissions"].what == f"all that is needed in {yard.namespace}"
    assert found["pod security"].what == "restricted pods in a namespace for restricted ones"
    assert found["nodes"].what == "1 may be used"
    assert found["room"].what.startswith("4 more replicas at the fullest, room for ")


def test_a_cluster_that_does_not_answer_is_one_finding(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "kubeconfig"
    text = Path(yard.cluster.variables["KUBECONFIG"]).read_text()
    nowhere.write_text(text.replace(":6443", ":9"))
    monkeypatch.setenv("KUBECONFIG", str(nowhere))
    found = yard.findings({})
    assert [one.check for one in found.values() if one.status == "fail"] == ["cluster"]
    assert "does not answer" in found["cluster"].what


def test_a_helm_that_is_missing_is_told(yard: Yard) -> None:
    found = yard.findings({"helm": "/nowhere/helm"})
    assert found["helm"].status == "fail"
    assert "Install Helm 3.16 or newer" in found["helm"].next_step


def test_pods_that_the_namespace_does_not_allow_are_told(yard: Yard) -> None:
    with npus(yard.cluster, 8):
        found = yard.findings({"npu": {"chip": "910b", "driver": "host"}})
    assert found["pod security"].status == "fail"
    assert found["pod security"].what == (
        f"namespace {yard.namespace} allows restricted pods, these are privileged"
    )
    assert "kubernetes.npu.driver: runtime" in found["pod security"].next_step


def test_nodes_without_the_labels_are_told(yard: Yard) -> None:
    found = yard.findings({"npu": {"chip": "910b"}})
    assert found["nodes"].status == "fail"
    assert found["nodes"].what.startswith("none of 1 nodes has the labels hardware-type=ascend-npu")
    assert "accelerator=huawei-Ascend910 is missing on 1" in found["nodes"].what


def test_another_name_of_the_npu_is_told_with_what_the_nodes_have(yard: Yard) -> None:
    with npus(yard.cluster, 8):
        found = yard.findings({"npu": {"chip": "910b", "resource": "huawei.com/Ascend910B4"}})
    assert found["node resources"].status == "fail"
    assert found["node resources"].what == (
        "no node has huawei.com/Ascend910B4; they have huawei.com/Ascend910"
    )


def test_too_few_npus_for_two_releases_are_told_with_the_strategy_that_needs_one(
    yard: Yard,
) -> None:
    with npus(yard.cluster, 2):
        found = yard.findings({"npu": {"chip": "910b"}})
    assert found["room"].status == "fail"
    assert found["room"].what == "4 more replicas at the fullest, room for 2"
    assert found["room"].next_step.startswith("Set strategy.type: recreate")


def test_a_claim_is_looked_at(yard: Yard) -> None:
    found = yard.findings({"model_claim": "nowhere"})
    assert found["claim"].what == f"there is no claim nowhere in {yard.namespace}"
    yard.make(broken.claim("unbound"))
    wait_until(
        lambda: yard.findings({"model_claim": "unbound"})["claim"].status == "fail",
        "the claim is told to be unbound",
    )
    claim = yard.findings({"model_claim": "unbound"})["claim"]
    assert "no persistent volumes available for this claim" in claim.what


def test_a_quota_without_room_for_a_surge_is_told(yard: Yard) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    yard.make({**quota, "spec": {"hard": {"pods": "3"}}})
    where = ("resourcequota", "team", "--namespace", yard.namespace)
    wait_until(lambda: "hard" in yard.cluster.get(*where)["status"], "the quota is counted")
    found = yard.findings({})
    assert found["quota"].status == "fail"
    assert found["quota"].what == "team has 3 of pods left, 4 more replicas need 4"


def test_what_is_named_and_not_there_is_told(yard: Yard) -> None:
    with npus(yard.cluster, 8):
        found = yard.findings(
            {
                "image_pull_secrets": ["mine"],
                "npu": {"chip": "910b", "runtime_class": "nowhere"},
                "traffic": "route",
                "gateway": {"name": "front"},
            }
        )
    assert found["image_pull_secrets"].what == f"there is no Secret mine in {yard.namespace}"
    assert found["runtime class"].what == "there is no RuntimeClass nowhere"
    assert found["traffic"].what == f"there is no Gateway {yard.namespace}/front"


def test_a_second_disruption_budget_for_the_same_pods_is_told(yard: Yard) -> None:
    yard.make(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "theirs"},
            "spec": {
                "minAvailable": 1,
                "selector": {"matchLabels": {"app.kubernetes.io/name": "light"}},
            },
        }
    )
    found = yard.findings({})
    assert found["disruption budget"].status == "fail"
    assert found["disruption budget"].what == "PodDisruptionBudget theirs is for these pods too"
