"""A whole life of a service by an account that has nothing but the printed Role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.apps.project import SERVICE, Candidate
from tests.cluster.kubernetes import Cluster, Refused
from tests.kubernetes.light_project import KubeLight, KubeOpsctl

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]


@contextmanager
def limited(light: KubeOpsctl, folder: Path) -> Iterator[KubeOpsctl]:
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
    own = Cluster({**cluster.variables, "KUBECONFIG": str(file)})
    project: KubeLight = replace(light.light, cluster=own)
    try:
        yield KubeOpsctl(project, project)
    finally:
        for kind in ("clusterrole", "clusterrolebinding"):
            cluster.kubectl("delete", kind, f"opsctl-{namespace}-{SERVICE}")


def test_deploys_rollbacks_and_the_end_need_no_right_beyond_it(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    with limited(light, tmp_path) as user:
        live_through(user)


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
    # And nothing beyond: neither another namespace nor the cluster's own objects.
    kubectl = user.light.cluster.kubectl
    for question in (("create", "pods"), ("get", "secrets", "--namespace", "kube-system"),
                     ("update", "nodes")):  # fmt: skip
        with pytest.raises(Refused, match="no"):
            kubectl("auth", "can-i", *question)
