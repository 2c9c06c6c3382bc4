"""A service that runs already comes to opsctl and leaves it, on a real node, while users ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apps.processes import start_client
from tests.apps.project import CANDIDATES
from tests.kubernetes.light_project import LINGER_S, KubeLight, KubeOpsctl

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

RATE_PER_S = 40.0
OLD = "by-hand"
PODS = {"app": OLD}


def by_hand(project: KubeLight, **container: Any) -> list[dict[str, Any]]:
    """What somebody applied before there was opsctl: a Deployment and the Service of its users."""
    main = {
        "name": "main",
        "image": project.image,
        "command": ["/light", project.namespace],
        "env": [{"name": "MODEL_PATH", "value": "/models"},
                {"name": "LINGER_S", "value": str(LINGER_S)}],
        "ports": [{"name": "http", "containerPort": 8501},
                  {"name": "health", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/health/ready", "port": "health"},
                           "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]}},
        **container,
    }  # fmt: skip
    pod = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532,
                            "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [main],
    }  # fmt: skip
    template = {"metadata": {"labels": PODS}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": PODS}, "template": template}
    ports = [{"name": "http", "port": 8501, "targetPort": "http"}]
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": OLD}, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "light"},
         "spec": {"type": "NodePort", "selector": PODS, "ports": ports}},
    ]  # fmt: skip


def apply(project: KubeLight, objects: list[dict[str, Any]]) -> None:
    """kubectl apply, and wait until all replicas are ready."""
    given = "---\n".join(yaml.safe_dump(one) for one in objects)
    project.cluster.kubectl("apply", "-n", project.namespace, "-f", "-", given=given)
    project.cluster.roll_out(project.namespace, OLD)


def install(project: KubeLight, folder: Path) -> None:
    """The same by a Helm chart of somebody's own, as release `light`."""
    (folder / "templates").mkdir(parents=True)
    chart = {"apiVersion": "v2", "name": "own", "version": "1.0.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    for one in by_hand(project):
        (folder / "templates" / f"{one['kind']}.yaml").write_text(yaml.safe_dump(one))
    project.cluster.helm("4", "install", "light", str(folder), "-n", project.namespace)
    project.cluster.roll_out(project.namespace, OLD)


def pods(project: KubeLight, selector: str) -> dict[str, int]:
    """Restarts of pods, by their identity."""
    found = project.cluster.get("pods", "-n", project.namespace, "-l", selector)["items"]
    return {
        pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in found
    }


def deployments(project: KubeLight) -> list[str]:
    found = project.cluster.get("deployments", "-n", project.namespace)["items"]
    return sorted(one["metadata"]["name"] for one in found)


@pytest.mark.parametrize("helms", [False, True], ids=["by kubectl", "by Helm"])
def test_what_runs_is_taken_over_and_goes_on_as_a_release_without_a_restart(
    light: KubeOpsctl, tmp_path: Path, helms: bool
) -> None:
    project = light.light
    if helms:
        install(project, tmp_path / "chart")
    else:
        apply(project, by_hand(project))
    before = pods(project, f"app={OLD}")
    assert list(before.values()) == [0, 0]
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        done = light.run("adopt", OLD)
        assert (done.exit_code, done.data["outcome"]) == (0, "adopted"), done.stderr
        assert done.data["serving_release"] == "r1"
        assert pods(project, "opsctl/release=r1") == before
        assert deployments(project) == ["light-r1"]
        observed = light.status()["observed"]
        assert (observed["converged"], observed["weights"]) == (True, {"r1": 100})
        assert light.run("adopt", OLD).data["outcome"] == "unchanged"
        assert pods(project, "opsctl/release=r1") == before
        project.change(CANDIDATES["code"], 2)
        deployed = light.run("deploy")
        assert (deployed.exit_code, deployed.data["serving_release"]) == (0, "r2"), deployed.stderr
        back = light.run("rollback")
        assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
        seen = client.stop()
    # Pods that somebody else made don't know what opsctl calls them; else every answer is right.
    assert seen["failed_by_kind"].keys() <= {"header"}, seen["failures"][:5]
    assert set(seen["releases"]) == {"", "r1", "r2"}
    told = json.loads(
        project.cluster.helm("4", "history", "light", "-n", project.namespace, "-o", "json")
    )
    assert told[-1]["status"] == "deployed"


def test_what_is_given_back_runs_on_and_nobody_knows_of_opsctl(light: KubeOpsctl) -> None:
    project = light.light
    source = project.root / "token"
    source.write_text("sentinel-77aa")
    source.chmod(0o600)
    project.edit(lambda service: service["app"].update(secrets={"TOKEN": {"file": "token"}}))
    for serial in (1, 2):
        project.change(CANDIDATES["code"], serial)
        assert light.run("deploy").exit_code == 0
    before = pods(project, "opsctl/release=r2")
    assert len(before) == 2
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        done = light.run("down", "--keep", "--yes")
        assert (done.exit_code, done.data["left"]) == (0, ["light-r2"]), done.stderr
        seen = client.stop()
    assert seen["failed"] == 0, seen["failures"][:5]
    assert pods(project, "opsctl/release=r2") == before
    # The release that was kept warm has no place any more.
    assert deployments(project) == ["light-r2"]
    kinds = "configmaps,secrets,leases"
    left = project.cluster.get(kinds, "-n", project.namespace)["items"]
    names = {one["metadata"]["name"] for one in left} - {"kube-root-ca.crt"}
    assert names == {"light-r2-secrets"}
    assert project.cluster.helm("4", "list", "-q", "-n", project.namespace) == ""
    for kind, name in (("deployment", "light-r2"), ("service", "light")):
        metadata = project.cluster.get(kind, name, "-n", project.namespace)["metadata"]
        assert strange(metadata) == []
    # Whoever has it next can change it, and its pods start with their secret.
    scale = ("scale", "deployment", "light-r2", "--replicas=3", "-n", project.namespace)
    project.cluster.kubectl(*scale)
    project.cluster.roll_out(project.namespace, "light-r2")
    assert light.run("status").data["serving_release"] is None


def strange(metadata: Mapping[str, Any]) -> list[str]:
    """Marks of Helm and opsctl that would keep others from an object."""
    notes = [*metadata.get("annotations", {})]
    marks = [name for name in notes if name.startswith(("opsctl/", "meta.helm.sh/"))]
    return [*marks, *(name for name in metadata["labels"] if name.endswith("/managed-by"))]


def test_what_can_not_be_taken_as_it_is_stays_untouched(light: KubeOpsctl) -> None:
    project = light.light
    none = light.run("adopt", OLD)
    assert none.exit_code == 4
    assert f"there is no such Deployment in {project.namespace}" in none.stderr
    unnamed = by_hand(project, ports=[{"containerPort": 8501}, {"containerPort": 8080}],
                      readinessProbe=None)  # fmt: skip
    unnamed[1]["spec"]["ports"][0]["targetPort"] = 8501
    apply(project, unnamed)
    refused = light.run("adopt", OLD)
    assert (refused.exit_code, "no port called http" in refused.stderr) == (4, True)
    other = project.cluster.image
    apply(project, by_hand(project, image=other, env=[]))
    refused = light.run("adopt", OLD)
    assert refused.exit_code == 4
    assert f"it runs {other}, and opsctl.yaml means {project.image}" in refused.stderr
    apply(project, by_hand(project))
    project.edit(lambda service: service["kubernetes"].update(service_type="ClusterIP"))
    refused = light.run("adopt", OLD)
    assert (refused.exit_code, "Service light is of type NodePort" in refused.stderr) == (4, True)
    assert deployments(project) == [OLD]
    assert light.run("status").data["serving_release"] is None
