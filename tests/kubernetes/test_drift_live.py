"""Drift on a real API server: what Helm made is no drift, what people do to it is, whole."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from opsctl.targets.kubernetes.drift import of_target
from opsctl.targets.kubernetes.target import KubernetesTarget
from opsctl.targets.target import Drift
from tests.cluster.fixtures import cluster as cluster
from tests.cluster.kubernetes import CHART, HELMS, Cluster
from tests.cluster.test_chart import release, values
from tests.kubernetes.projects import project

pytestmark = [pytest.mark.cluster, pytest.mark.long]

ANNOTATE, SET = "kubectl-annotate", "kubectl-set"
ENV = "spec.template.spec.containers[service].env"


@pytest.mark.parametrize("major", HELMS)
def test_what_people_change_is_told_with_who_did_it(
    cluster: Cluster, major: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", cluster.variables["KUBECONFIG"])
    with cluster.namespace(f"t-{secrets.token_hex(4)}") as namespace:
        where = ("--namespace", namespace)
        target = KubernetesTarget(project(tmp_path, cluster.image, {"namespace": namespace}))
        assert of_target(target) == []
        given = values(release(cluster, "r1", replicas=2, weight=100))
        cluster.helm(major, "install", "light", str(CHART), *where, values=given)
        cluster.roll_out(namespace, "light-r1")
        assert of_target(target) == []
        cluster.kubectl("scale", "deployment/light-r1", "--replicas=1", *where)
        cluster.kubectl("set", "env", "deployment/light-r1", "DB_PASSWORD=hush-hush", *where)
        cluster.kubectl("set", "env", "deployment/light-r1", "TF_CPP_MIN_LOG_LEVEL=0", *where)
        cluster.kubectl("annotate", "service/light", "note=mine", *where)
        cluster.kubectl("delete", "poddisruptionbudget", "light-r1", *where)
        cluster.kubectl("create", "deployment", "left", "--image", cluster.image, *where)
        labels = ("app.kubernetes.io/instance=light", "app.kubernetes.io/name=light")
        cluster.kubectl("label", "deployment", "left", *labels, *where)
        found = of_target(target)
        deployment = "Deployment light-r1"
        assert {str(one) for one in found} == {
            str(Drift("PodDisruptionBudget light-r1", "", "there", None)),
            str(Drift("Service light", "metadata.annotations.note", None, "mine", ANNOTATE)),
            str(Drift(deployment, "spec.replicas", 2, 1, "kubectl")),
            str(Drift(deployment, f"{ENV}[DB_PASSWORD].value", None, "***", SET)),
            str(Drift(deployment, f"{ENV}[TF_CPP_MIN_LOG_LEVEL].value", "2", "0", SET)),
            str(Drift("Deployment left", "", None, "there")),
        }
        assert len(found) == 6
