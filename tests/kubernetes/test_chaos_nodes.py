"""What happens to nodes, clocks and stores in the middle of a rollout, while users ask."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path

import pytest

from tests.apps.processes import start_client
from tests.apps.project import CANDIDATES
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import Cluster, Refused, wait_until
from tests.kubernetes.light_project import KubeOpsctl, by_route
from tests.kubernetes.test_chaos import END_S, RATE_PER_S, answers, half_way, told

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

AWAY_S = 10.0
MEGABYTE = 1 << 20

AHEAD = """\
import datetime
import time

AHEAD_S = 300.0
now = time.time
time.time = lambda: now() + AHEAD_S


class Ahead(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=AHEAD_S)


datetime.datetime = Ahead
"""
"""A sitecustomize.py for a Python whose clock is five minutes ahead."""


def test_a_store_that_is_started_again_costs_no_request(light: KubeOpsctl) -> None:
    cluster = light.light.cluster
    with half_way(light, 3.0) as (process, client):
        cluster.order("stop", "etcd")
        try:
            time.sleep(AWAY_S)
        finally:
            cluster.order("start", "etcd")
        wait_until(lambda: answers(cluster), "the API server has its store again")
        code = process.wait(END_S)
        seen = client.stop()
    assert code in (0, 10), told(light)
    assert light.status()["serving_release"] == ("r2" if code == 0 else "r1")
    assert seen["failed"] == 0, seen["failures"][:5]


def test_a_kubelet_that_stands_still_while_a_candidate_starts_delays_it_only(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    assert light.run("deploy").exit_code == 0
    project.change(CANDIDATES["code"], 2)
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        project.cluster.order("stop", "kubelet")
        try:
            process = light.spawn(tmp_path / "deploy.log", "deploy")
            time.sleep(AWAY_S)
        finally:
            project.cluster.order("start", "kubelet")
        code = process.wait(END_S)
        seen = client.stop()
    assert code == 0, (tmp_path / "deploy.log").read_text()
    assert light.status()["serving_release"] == "r2"
    assert seen["failed"] == 0, seen["failures"][:5]


def test_a_node_that_is_drained_keeps_as_many_replicas_as_users_need(light: KubeOpsctl) -> None:
    cluster = light.light.cluster
    # Nobody but kube-proxy takes these pods out of the rotation, late on a machine that is busy.
    with half_way(light, 15.0, linger_s=30) as (process, client):
        (node,) = (one["metadata"]["name"] for one in cluster.get("nodes")["items"])
        try:
            drain(cluster, node, light.light.namespace)
        finally:
            cluster.kubectl("uncordon", node)
        code = process.wait(END_S)
        seen = client.stop()
    assert code == 0, told(light)
    assert light.status()["serving_release"] == "r2"
    assert seen["failed"] == 0, seen["failures"][:5]


def drain(cluster: Cluster, node: str, namespace: str) -> None:
    """Evict the service's pods as `kubectl drain` does; the last ones may not go."""
    cluster.kubectl("cordon", node)
    for pod in cluster.get("pods", "-n", namespace)["items"]:
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": name, "namespace": namespace}}  # fmt: skip
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        with contextlib.suppress(Refused):  # its disruption budget says no
            cluster.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction))


def test_a_clock_that_is_five_minutes_ahead_matters_to_nobody(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    assert light.run("deploy").exit_code == 0
    (tmp_path / "sitecustomize.py").write_text(AHEAD)
    ahead = {"PYTHONPATH": str(tmp_path)}
    light.light.change(CANDIDATES["code"], 2)
    killed = light.run("deploy", OPSCTL_KILL_AT="after:4", **ahead)
    assert killed.exit_code == -signal.SIGKILL
    # Another machine, whose clock is right, goes on where that one stopped.
    done = light.elsewhere(tmp_path / "elsewhere").run("resume")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    back = light.run("rollback", **ahead)
    assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
    rows = light.run("history").data["rollouts"]
    assert [row["outcome"] for row in rows] == [
        "deployed", "deployed", "rolled_back_on_request",
    ]  # fmt: skip


def test_a_state_beyond_what_an_object_holds_is_kept_and_used(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    bodies = project.root / "instances.jsonl"
    line = bodies.read_text().splitlines()[0]
    bodies.write_text(f"{line}\n" * (3 * MEGABYTE // len(line)))
    assert light.run("deploy").exit_code == 0
    project.change(CANDIDATES["code"], 2)
    killed = light.run("deploy", OPSCTL_KILL_AT="after:3")
    assert killed.exit_code == -signal.SIGKILL
    there = light.elsewhere(tmp_path / "elsewhere")
    (there.light.root / "instances.jsonl").unlink()
    done = there.run("resume")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    kept = project.cluster.get("configmaps", "-n", project.namespace)["items"]
    assert max(len(json.dumps(one)) for one in kept) < MEGABYTE


def test_replicas_that_an_autoscaler_changes_are_what_is_wanted(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    with traefik(project.cluster, project.namespace, tmp_path) as port:
        routed = by_route(project, port)
        autoscaling = {"autoscaling": {"max_replicas": 4}}
        routed.edit(lambda service: service["kubernetes"].update(autoscaling))
        user = KubeOpsctl(routed, routed)
        with half_way(user, 6.0) as (process, client):
            # What an autoscaler does, which here has no figures to go by.
            scale = ("scale", "deployment", "light-r1", "--replicas=3")
            routed.cluster.kubectl(*scale, "-n", routed.namespace)
            code = process.wait(END_S)
            seen = client.stop()
        assert code == 0, told(user)
        assert seen["failed"] == 0, seen["failures"][:5]
        observed = user.status()["observed"]
        assert (observed["converged"], observed["weights"]) == (True, {"r2": 100})
