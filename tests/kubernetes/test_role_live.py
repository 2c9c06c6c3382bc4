"""A whole life of a service by an account that has nothing but the printed Role.

Each request of opsctl and of Helm goes by a way that sees the answers: none may be 403, also where
a command would go on without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.apps.project import SERVICE, Candidate, Options
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import Cluster, Refused
from tests.kubernetes.bad_api import Faults, bad_api
from tests.kubernetes.light_project import KubeOpsctl, by_route, light_in, through
from tests.kubernetes.test_adoption import OLD, apply, by_hand, pods
from tests.kubernetes.test_bench_job import measuring as measuring

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

OF_THE_CLUSTER = ("/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces/", "/apis/node.k8s.io/")
"""What the optional ClusterRole is for."""


@dataclass(frozen=True)
class Limited:
    """The command as such an account runs it."""

    opsctl: KubeOpsctl
    account: KubeOpsctl
    """The same by the straight way to the API server, for kubectl."""
    faults: Faults

    @property
    def forbidden(self) -> list[str]:
        """Requests that were not allowed."""
        return self.faults.forbidden


@contextmanager
def limited(light: KubeOpsctl, folder: Path) -> Iterator[Limited]:
    """The same project, by the account of `opsctl render role`; gone with the block."""
    cluster, namespace = light.light.cluster, light.light.namespace
    role = light.run("render", "role")
    cluster.kubectl("apply", "-f", "-", given=str(role.data["rendered"]))
    account = ("create", "token", f"opsctl-{SERVICE}", "--namespace", namespace)
    token = cluster.kubectl(*account, "--duration=2h").strip()
    known = yaml.safe_load(Path(cluster.variables["KUBECONFIG"]).read_text())
    known["users"][0]["user"] = {"token": token}
    file = folder / "limited.kubeconfig"
    file.write_text(yaml.safe_dump(known))
    own = through(light, file)
    try:
        with bad_api(own.light.cluster, faults := Faults(seed=0)) as way:
            seen = through(light, way.kubeconfig(folder / "seen.kubeconfig"))
            yield Limited(seen, own, faults)
    finally:
        for kind in ("clusterrole", "clusterrolebinding"):
            name = f"opsctl-{namespace}-{SERVICE}"
            cluster.kubectl("delete", kind, name, "--ignore-not-found")


def test_deploys_rollbacks_and_the_end_need_no_right_beyond_it(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    with limited(light, tmp_path) as user:
        live_through(user.opsctl)
        assert user.forbidden == []
        # And nothing beyond: neither another namespace nor the cluster's own objects.
        kubectl = user.account.light.cluster.kubectl
        for question in (("create", "pods"), ("get", "secrets", "--namespace", "kube-system"),
                         ("update", "nodes")):  # fmt: skip
            with pytest.raises(Refused, match="no"):
                kubectl("auth", "can-i", *question)


def test_a_gateway_a_guard_and_autoscalers_need_no_right_beyond_it(
    light: KubeOpsctl, guards: str, tmp_path: Path
) -> None:
    project = light.light
    with traefik(project.cluster, project.namespace, tmp_path) as port:
        routed = by_route(project, port)
        more = {"guard_image": guards, "autoscaling": {"max_replicas": 4}}
        routed.edit(lambda service: service["kubernetes"].update(more))
        with limited(KubeOpsctl(routed, routed), tmp_path) as user:
            live_through(user.opsctl)
            assert user.forbidden == []


def test_a_benchmark_in_the_cluster_needs_no_right_beyond_it(
    cluster: Cluster, room: str, image: str, measuring: str, tmp_path: Path
) -> None:
    project = light_in(cluster, room, tmp_path / "project", image, Options(replicas=1))
    project.edit(lambda service: service["kubernetes"].update(bench_image=measuring))
    with limited(KubeOpsctl(project, project), tmp_path) as user:
        for serial in (1, 2):
            project.change(Candidate("good"), serial)
            done = user.opsctl.run("deploy")
            # What the benchmark finds is the machine's affair.
            assert done.exit_code in (0, 10), done.stderr
        assert sorted(project.root.rglob("reports/0002/gate-1.json")) != []
        assert user.opsctl.run("down", "--yes").exit_code == 0
        assert user.forbidden == []


def test_what_runs_is_adopted_and_given_back_with_no_right_beyond_it(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    apply(project, by_hand(project))
    before = pods(project, f"app={OLD}")
    with limited(light, tmp_path) as user:
        done = user.opsctl.run("adopt", OLD)
        assert (done.exit_code, done.data["outcome"]) == (0, "adopted"), done.stderr
        assert pods(project, "opsctl/release=r1") == before
        project.change(Candidate("good"), 2)
        assert user.opsctl.run("deploy").exit_code == 0
        kept = user.opsctl.run("down", "--keep", "--yes")
        assert (kept.exit_code, kept.data["left"]) == (0, ["light-r2"]), kept.stderr
        assert user.forbidden == []


def test_who_may_not_do_all_of_an_adoption_touches_nothing(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    apply(project, by_hand(project))
    before = pods(project, f"app={OLD}")
    with limited(light, tmp_path) as user:
        own = ("role", f"opsctl-{SERVICE}", "-n", project.namespace)
        role = project.cluster.get(*own)
        role["rules"] = [rule for rule in role["rules"] if rule["verbs"] != ["patch"]]
        project.cluster.kubectl("apply", "-f", "-", given=yaml.safe_dump(role))
        refused = user.opsctl.run("adopt", OLD)
    assert refused.exit_code == 4
    assert f"not allowed in {project.namespace}: patch pods" in refused.stderr
    assert "opsctl render role | kubectl apply -f -" in refused.stderr
    assert pods(project, f"app={OLD}") == before


def test_without_the_role_of_the_cluster_only_what_reads_nodes_is_unknown(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    with limited(light, tmp_path) as user:
        cluster.kubectl("delete", "clusterrolebinding", f"opsctl-{namespace}-{SERVICE}")
        before = user.opsctl.run("preflight")
        assert before.exit_code == 0, before.data
        told = {one["check"]: one["status"] for one in before.data["findings"]}
        assert told["permissions"] == "ok"
        assert told["permissions of the cluster"] == told["nodes"] == "unknown"
        assert user.opsctl.run("deploy").exit_code == 0
        paths = {line.split()[1].partition("?")[0] for line in user.forbidden}
    assert paths
    assert [path for path in paths if not path.startswith(OF_THE_CLUSTER)] == []


def live_through(user: KubeOpsctl) -> None:
    """Preflight, deploys, a rollback, the end."""
    before = user.run("preflight")
    assert before.exit_code == 0, before.data
    told = {one["check"]: one["status"] for one in before.data["findings"]}
    assert told["permissions"] == "ok"
    assert "permissions of the cluster" not in told
    for serial in (1, 2):
        user.light.change(Candidate("good"), serial)
        done = user.run("deploy")
        assert done.exit_code == 0, done.data
    assert user.run("diff").exit_code == 0
    assert user.run("logs", "--lines", "5").exit_code == 0
    back = user.run("rollback")
    assert (back.exit_code, back.data["serving_release"]) == (0, "r1")
    assert user.run("down", "--yes").exit_code == 0
