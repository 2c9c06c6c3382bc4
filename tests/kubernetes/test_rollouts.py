"""Deploys and rollbacks on a real node, by the command itself, while users ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.processes import start_client
from tests.apps.project import CANDIDATES, Candidate, Options
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import HELMS, Cluster
from tests.kubernetes.guard_image import copy_program
from tests.kubernetes.light_project import (
    KubeOpsctl,
    by_helm,
    by_route,
    image_with_model,
    light_in,
)

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

RATE_PER_S = 40.0
PRE_STOP_S = 60
"""Longer than all that a rollback does takes together on a machine that is busy."""


def deploy(light: KubeOpsctl, serial: int, candidate: Candidate | None = None) -> dict[str, object]:
    """Deploy a candidate; what the command said."""
    light.light.change(candidate or CANDIDATES["code"], serial)
    result = light.run("deploy")
    assert result.data, result.stderr
    return dict(result.data)


@pytest.fixture(scope="session")
def image_with_shell(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The light service in an image that can run a command, as users' images can."""
    root = tmp_path_factory.mktemp("image") / "root"
    image_with_model(cluster, root)
    copy_program(root, Path("/bin/sh"))
    return cluster.order("image", "served-shell:1", str(root), "/light").strip()


@pytest.fixture(params=["selector", "route"])
def shared(
    request: pytest.FixtureRequest, light: KubeOpsctl, tmp_path: Path
) -> Iterator[KubeOpsctl]:
    """The light service, its traffic shared in one of the two ways."""
    if request.param == "selector":
        yield light
        return
    project = light.light
    with traefik(project.cluster, project.namespace, tmp_path) as port:
        routed = by_route(project, port)
        yield KubeOpsctl(routed, routed)


@pytest.fixture(params=HELMS)
def way(request: pytest.FixtureRequest, shared: KubeOpsctl) -> KubeOpsctl:
    """And each revision made by one of the two Helms."""
    project = by_helm(shared.light, request.param)
    return KubeOpsctl(project, project)


def test_good_and_bad_releases_and_a_rollback_cost_no_request(way: KubeOpsctl) -> None:
    light = way
    assert deploy(light, 1)["outcome"] == "deployed"
    with start_client(light.light, light.light.root, rate=RATE_PER_S) as client:
        assert deploy(light, 2)["serving_release"] == "r2"
        bad = deploy(light, 3, CANDIDATES["wrong_value"])
        assert (bad["exit_code"], bad["serving_release"]) == (10, "r2")
        assert "smoke" in str(bad["reason"])
        dead = deploy(light, 4, CANDIDATES["exits_at_start"])
        assert (dead["exit_code"], dead["serving_release"]) == (10, "r2")
        assert "told to exit at start" in str(dead["reason"])
        back = light.run("rollback")
        assert (back.exit_code, back.data["serving_release"]) == (0, "r1")
        seen = client.stop()
    assert seen["failed"] == 0, seen["failures"][:5]
    assert set(seen["releases"]) == {"r1", "r2"}
    assert light.status()["serving_release"] == "r1"


def test_users_leave_a_bad_release_without_the_wait_before_its_pods_end(
    cluster: Cluster, room: str, image_with_shell: str, tmp_path: Path
) -> None:
    options = Options(replicas=2, gate=False)
    project = light_in(cluster, room, tmp_path / "project", image_with_shell, options)
    project.edit(lambda service: service["kubernetes"].update(pre_stop_s=PRE_STOP_S))
    light = KubeOpsctl(project, project)
    deploy(light, 1)
    deploy(light, 2)
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        back = light.run("rollback")
        assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
        seen = client.stop()
    assert seen["failed"] == 0, seen["failures"][:5]
    # What users keep alive would stay with the pods for as long as those wait.
    assert back.ended - seen["releases"]["r2"]["last_sent"] > PRE_STOP_S / 2
    assert back.seconds > PRE_STOP_S


def test_another_machine_needs_nothing_but_the_kubeconfig(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    deploy(light, 1)
    deploy(light, 2)
    there = light.elsewhere(tmp_path / "elsewhere")
    status = there.run("status")
    assert status.data["serving_release"] == "r2"
    assert [row["outcome"] for row in there.run("history").data["rollouts"]] == ["deployed"] * 2
    back = there.run("rollback")
    assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
    assert light.run("status").data["serving_release"] == "r1"
    marks = {row["release"]: row["mark"] for row in light.run("releases", "list").data["releases"]}
    assert marks == {"r1": "serving", "r2": "rejected"}


def test_helm_tells_the_same_story(light: KubeOpsctl) -> None:
    deploy(light, 1)
    cluster, namespace = light.light.cluster, light.light.namespace
    told = json.loads(cluster.helm("4", "history", "light", "-n", namespace, "-o", "json"))
    assert [row["description"].partition(": ")[2] for row in told] == ["r1 ×2", "r1 ×2 all traffic"]
    assert [row["status"] for row in told] == ["superseded", "deployed"]
    values = json.loads(cluster.helm("4", "get", "values", "light", "-n", namespace, "-o", "json"))
    assert [(one["name"], one["weight"]) for one in values["releases"]] == [("r1", 100)]


def test_secrets_reach_the_pods_and_stand_nowhere_else(light: KubeOpsctl) -> None:
    value = "sentinel-4b1d"
    source = light.light.root / "token"
    source.write_text(value)
    source.chmod(0o600)
    light.light.edit(lambda service: service["app"].update(secrets={"TOKEN": {"file": "token"}}))
    light.light.edit(lambda service: service["app"].update(env={}))
    assert light.run("deploy").exit_code == 0
    cluster, namespace = light.light.cluster, light.light.namespace
    pod = cluster.get("pods", "-n", namespace)["items"][0]
    env = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
    assert env["TOKEN"]["valueFrom"] == {
        "secretKeyRef": {"name": "light-r1-secrets", "key": "TOKEN"}
    }
    said = cluster.kubectl("get", "configmaps,deployments,pods", "-n", namespace, "-o", "json")
    assert value not in said
    assert value not in cluster.helm("4", "get", "all", "light", "-n", namespace)


def test_down_leaves_nothing(light: KubeOpsctl) -> None:
    deploy(light, 1)
    assert light.run("down", "--yes").exit_code == 0
    cluster, namespace = light.light.cluster, light.light.namespace
    kinds = "deployments,services,pods,configmaps,secrets,leases,poddisruptionbudgets"
    left = [
        one["metadata"]["name"] for one in cluster.get(kinds, "-n", namespace)["items"]
        if "light" in one["metadata"]["name"]
    ]  # fmt: skip
    assert left == []
    assert light.run("status").data["serving_release"] is None
    assert deploy(light, 2)["serving_release"] == "r1"
