"""People who use Helm itself between opsctl's steps: nothing breaks, and opsctl says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.apps.project import CANDIDATES, Options
from tests.cluster.kubernetes import HELMS, Cluster, wait_until
from tests.kubernetes.guard_image import python_root
from tests.kubernetes.light_project import KubeOpsctl, by_helm, image_with_model, light_in

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def image_with_python(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The light service in an image that can run the chart's own test, as users' images can."""
    root = tmp_path_factory.mktemp("image") / "root"
    image_with_model(cluster, root)
    return image_of(cluster, root)


def image_of(cluster: Cluster, root: Path) -> str:
    """The same image with Python."""
    python_root(root)
    return cluster.order("image", "served-python:1", str(root), "/light").strip()


@pytest.fixture(params=HELMS)
def user(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    room: str,
    image_with_python: str,
    tmp_path: Path,
) -> KubeOpsctl:
    """opsctl in a project of two replicas, with one of the two Helms."""
    options = Options(replicas=2, gate=False)
    project = light_in(cluster, room, tmp_path / "project", image_with_python, options)
    chosen = by_helm(project, request.param)
    return KubeOpsctl(chosen, chosen)


class PlainHelm:
    """Helm, by hand."""

    def __init__(self, user: KubeOpsctl) -> None:
        self.light = user.light

    def __call__(self, *arguments: str) -> str:
        return self.light.cluster.helm(self.light.helm, *arguments, "-n", self.light.namespace)

    def history(self) -> list[dict[str, Any]]:
        """All revisions."""
        found: list[dict[str, Any]] = json.loads(self("history", "light", "-o", "json"))
        return found

    def weights(self, revision: int) -> dict[str, int]:
        """Traffic that a revision gives."""
        told = json.loads(self("get", "values", "light", "--revision", str(revision), "-o", "json"))
        return {one["name"]: one["weight"] for one in told["releases"] if one["weight"]}


def test_a_rollback_by_helm_is_told_and_can_be_undone(user: KubeOpsctl) -> None:
    helm = PlainHelm(user)
    for serial in (1, 2):
        user.light.change(CANDIDATES["code"], serial)
        assert user.run("deploy").exit_code == 0
    assert "200" in helm("test", "light", "--logs")
    before = max(
        row["revision"] for row in helm.history() if helm.weights(row["revision"]) == {"r1": 100}
    )
    helm("rollback", "light", str(before))
    newest = helm.history()[-1]
    wait_until(lambda: user.status()["observed"]["weights"] == {"r1": 100}, "r1 has the traffic")
    trouble = user.status()["observed"]["trouble"]
    made = f"revision {newest['revision']} of Helm ({newest['description']})"
    assert trouble.startswith(f"{made} is not opsctl's: it has r1 ×2")
    assert "r2 ×2 all traffic was ordered; opsctl resume puts that back" in trouble
    done = user.run("resume")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    observed = user.status()["observed"]
    assert (observed["weights"], observed["trouble"], observed["converged"]) == (
        {"r2": 100},
        "",
        True,
    )
    assert helm.history()[-1]["status"] == "deployed"


def test_a_rollout_that_waits_goes_on_after_a_rollback_by_helm(user: KubeOpsctl) -> None:
    helm = PlainHelm(user)
    assert user.run("deploy").exit_code == 0
    stages = [{"weight": 30, "hold_s": 0.5}, {"weight": 50, "hold_s": 0.5, "approval": True}]
    user.light.edit(lambda service: service["strategy"].update(stages=stages))
    user.light.change(CANDIDATES["code"], 2)
    assert user.run("deploy").exit_code == 20
    first = next(
        row["revision"] for row in helm.history() if helm.weights(row["revision"]) == {"r1": 100}
    )
    helm("rollback", "light", str(first))
    assert "Rollback to" in user.status()["observed"]["trouble"]
    done = user.run("approve")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    assert user.status()["observed"]["weights"] == {"r2": 100}
