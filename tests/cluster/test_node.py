"""scripts/cluster: a node that obeys orders, stands beside others, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster.kubernetes import ROOT, Cluster, Refused, ask, wait_until

pytestmark = [pytest.mark.cluster]


def test_every_component_runs(cluster: Cluster) -> None:
    lines = cluster.order("status").splitlines()
    states = dict(line.split()[1:3] for line in lines if line.startswith("node1 "))
    assert set(states) == {
        "etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
        "coredns", "containerd", "kubelet", "kube-proxy",
    }  # fmt: skip
    assert set(states.values()) == {"runs"}


def test_up_twice_is_up_once(cluster: Cluster) -> None:
    before = cluster.get("node", "node1")["metadata"]["uid"]
    cluster.order("up")
    assert cluster.get("node", "node1")["metadata"]["uid"] == before


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_component_ends_and_starts_as_ordered(cluster: Cluster, how: str) -> None:
    assert cluster.order(how, "kube-apiserver").strip() == "ended"
    with pytest.raises(Refused):
        cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=2s")
    assert cluster.order("start", "kube-apiserver").strip() == "runs"
    wait_until(lambda: ready(cluster), "the API server is ready again")


def ready(cluster: Cluster) -> bool:
    try:
        return cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=2s") == "ok"
    except Refused:
        return False


def test_an_order_that_makes_no_sense_is_refused_and_ends_nothing(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="can't `start nonsense`"):
        cluster.order("start", "nonsense")
    assert "kubelet" in cluster.order("status")


def test_a_folder_becomes_an_image_with_the_same_digest_each_time(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "words").write_text("hello\n")
    first = cluster.order("image", "words:1", str(tmp_path), "/none").strip()
    assert first.startswith(f"{cluster.variables['CLUSTER_REGISTRY']}/words@sha256:")
    assert cluster.order("image", "words:2", str(tmp_path), "/none").strip() == first


def test_two_clones_have_a_cluster_each_and_down_leaves_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    script = str(clone / "scripts" / "cluster")
    before = leftovers()
    subprocess.run([script, "up"], check=True, stdout=subprocess.DEVNULL)
    try:
        other = json.loads((clone / "build" / "cluster" / "env.json").read_text())
        assert other["CLUSTER_ADDRESS"] != cluster.address
        nodes = subprocess.run(
            [other["CLUSTER_KUBECTL"], "--kubeconfig", other["KUBECONFIG"], "get", "nodes"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert nodes.split()[5:7] == ["node1", "Ready"]
        assert cluster.kubectl("get", "nodes").split()[5:7] == ["node1", "Ready"]
        assert ask(other["CLUSTER_ADDRESS"], 5000, "/v2/").status == 200
        assert leftovers() != before
    finally:
        subprocess.run([script, "down"], check=True, stdout=subprocess.DEVNULL)
    assert leftovers() == before


def leftovers() -> tuple[list[str], list[str], list[str]]:
    """Interfaces, cgroups and mounts of clusters on this machine."""
    links = subprocess.run(
        ["ip", "-brief", "link"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    interfaces = sorted(line.split()[0] for line in links if line.startswith("opsctl"))
    groups = sorted(str(path) for path in Path("/sys/fs/cgroup").glob("**/opsctl-*"))
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return interfaces, groups, sorted(line for line in mounts if "opsctl-cluster" in line)
