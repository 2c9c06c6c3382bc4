"""What people and clusters do in the middle of a rollout, on a real node, while users ask."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.processes import ClientRun, start_client
from tests.apps.project import CANDIDATES
from tests.cluster.kubernetes import Cluster, Refused, wait_until
from tests.kubernetes.bad_api import Faults, bad_api
from tests.kubernetes.light_project import LINGER_S, KubeLight, KubeOpsctl, through

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

RATE_PER_S = 40.0
END_S = 400.0
JOINED = "opsctl/joins-r1"


@contextmanager
def half_way(
    light: KubeOpsctl, hold_s: float, linger_s: int = LINGER_S, **guard: str
) -> Iterator[tuple[subprocess.Popen[bytes], ClientRun]]:
    """A deploy of r2 that has half of the traffic for `hold_s`, and a client at the front door."""
    project = light.light
    project.edit(lambda service: service["kubernetes"].update(guard))
    stages = [{"weight": 50, "hold_s": hold_s}]
    limits = {"stages": stages, "drain_timeout_s": 2 * linger_s}
    project.edit(lambda service: service["strategy"].update(limits))
    lingers = {"LINGER_S": str(linger_s)}
    project.edit(lambda service: service["app"]["env"].update(lingers))
    assert light.run("deploy").exit_code == 0
    if guard:
        project.cluster.roll_out(project.namespace, "opsctl-light-guard")
    project.change(CANDIDATES["code"], 2)
    project.edit(lambda service: service["app"]["env"].update(lingers))
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        process = light.spawn(project.root / "deploy.log", "deploy")
        try:
            wait_until(lambda: has_share(project), "r2 has a share of the traffic")
            yield process, client
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def selector(project: KubeLight) -> Any:
    """What the front Service selects."""
    return project.cluster.get("service", "light", "-n", project.namespace)["spec"]["selector"]


def has_share(project: KubeLight) -> bool:
    """Whether r2 has some of the traffic."""
    if not project.door:
        return JOINED in selector(project)
    route = project.cluster.get("httproute", "light", "-n", project.namespace)
    backs = [back for rule in route["spec"]["rules"] for back in rule["backendRefs"]]
    return any(back["name"] == "light-r2" and back["weight"] for back in backs)


def told(light: KubeOpsctl) -> str:
    """All that the deploy said."""
    return (light.light.root / "deploy.log").read_text()


def test_an_api_server_that_is_away_for_twenty_seconds_costs_no_request(
    light: KubeOpsctl, guards: str
) -> None:
    cluster = light.light.cluster
    with half_way(light, 3.0, guard_image=guards) as (process, client):
        cluster.order("stop", "kube-apiserver")
        try:
            time.sleep(20)
        finally:
            cluster.order("start", "kube-apiserver")
        wait_until(lambda: answers(cluster), "the API server is back")
        code = process.wait(END_S)
        seen = client.stop()
    # A server that took too long to come back is a reason to give up, and then all is as before.
    assert code in (0, 10), told(light)
    assert light.status()["serving_release"] == ("r2" if code == 0 else "r1")
    assert seen["failed"] == 0, seen["failures"][:5]


def answers(cluster: Cluster) -> bool:
    """Whether the API server says that it is ready."""
    try:
        return cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=2s") == "ok"
    except Refused:
        return False


def test_pods_that_a_person_deletes_are_replaced_and_the_deploy_goes_on(light: KubeOpsctl) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    # Nobody but kube-proxy takes these pods out of the rotation, late on a machine that is busy.
    with half_way(light, 15.0, linger_s=30) as (process, client):
        for release in ("r1", "r2"):
            pod = cluster.get("pods", "-n", namespace, "-l", f"opsctl/release={release}")["items"]
            name = pod[0]["metadata"]["name"]
            cluster.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")
        code = process.wait(END_S)
        seen = client.stop()
    assert code == 0, told(light)
    assert seen["failed"] == 0, seen["failures"][:5]
    assert light.status()["serving_release"] == "r2"


def test_who_has_lost_the_lock_changes_nothing_more_and_another_goes_on(light: KubeOpsctl) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    with half_way(light, 600.0) as (process, client):
        stolen = json.dumps({"spec": {"holderIdentity": "thief"}})
        cluster.kubectl("patch", "lease", "opsctl-light", "-n", namespace, "-p", stolen)
        code = process.wait(END_S)
        assert code == 22, told(light)
        assert JOINED in selector(light.light)
        # The thief never renews it, so it is passed.
        done = light.run("abort")
        assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr
        seen = client.stop()
    assert seen["failed"] == 0, seen["failures"][:5]


def test_a_namespace_that_is_deleted_ends_the_deploy_and_the_next_one_begins_anew(
    light: KubeOpsctl,
) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    with half_way(light, 600.0) as (process, _):
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
        code = process.wait(END_S)
    assert code not in (0, 1), told(light)
    wait_until(lambda: is_gone(cluster, namespace), "the namespace is gone")
    done = light.run("deploy")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr


def is_gone(cluster: Cluster, namespace: str) -> bool:
    return cluster.kubectl("get", "namespace", namespace, "--ignore-not-found") == ""


def test_a_front_service_that_somebody_edits_is_put_right(light: KubeOpsctl) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    with half_way(light, 6.0) as (process, client):
        edited = json.dumps({"spec": {"selector": {JOINED: None, "opsctl/release": "r1"}}})
        cluster.kubectl(
            "patch", "service", "light", "-n", namespace, "-p", edited,
            "--field-manager=kubectl-edit",
        )  # fmt: skip
        code = process.wait(END_S)
        seen = client.stop()
    assert code == 0, told(light)
    assert selector(light.light)["opsctl/release"] == "r2"
    assert seen["failed"] == 0, seen["failures"][:5]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(lambda: Faults(seed=1, watch_s=1.0), id="watches are cut each second"),
        pytest.param(lambda: Faults(seed=2, refused_share=0.1), id="one in ten is refused"),
    ],
)
def test_a_bad_way_to_the_api_server_changes_nothing_but_the_time(
    light: KubeOpsctl, tmp_path: Path, faults: Callable[[], Faults]
) -> None:
    made = faults()
    with bad_api(light.light.cluster, made) as way:
        bad = through(light, way.kubeconfig(tmp_path / "bad.kubeconfig"))
        for serial, release in ((1, "r1"), (2, "r2")):
            light.light.change(CANDIDATES["code"], serial)
            done = bad.run("deploy")
            assert (done.exit_code, done.data["serving_release"]) == (0, release), done.stderr
        back = bad.run("rollback")
        assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
    assert made.refused > 0 if made.refused_share else made.cut > 0
    assert light.status()["observed"]["weights"] == {"r1": 100}
