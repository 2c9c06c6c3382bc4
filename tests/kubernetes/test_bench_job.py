"""The gate runs as a Job next to the pods, and nothing of it stays, whatever happened."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.apps.project import CANDIDATES, Options
from tests.cluster.kubernetes import Cluster, wait_until
from tests.kubernetes.guard_image import bench_image
from tests.kubernetes.light_project import KubeOpsctl, light_in

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

NOWHERE = hashlib.sha256(b"").hexdigest()[:12]
"""How a report names the machine of a container, which has no machine-id."""


@pytest.fixture(scope="session")
def measuring(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """opsctl's image with what benchmarks need."""
    return bench_image(cluster, tmp_path_factory.mktemp("measuring"))


@pytest.fixture
def gated(cluster: Cluster, room: str, image: str, measuring: str, tmp_path: Path) -> KubeOpsctl:
    """A service with a gate; r1 serves."""
    project = light_in(cluster, room, tmp_path / "project", image, Options(replicas=1))
    project.edit(lambda service: service["kubernetes"].update(bench_image=measuring))
    made = KubeOpsctl(project, project)
    first = made.run("deploy")
    assert first.data["serving_release"] == "r1", first.stderr
    project.change(CANDIDATES["code"], 2)
    return made


def left(light: KubeOpsctl) -> list[str]:
    """Jobs, and what they read."""
    found = light.light.cluster.get("jobs,secrets", "-n", light.light.namespace)["items"]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"].endswith("-bench")]


def test_both_arms_are_asked_inside_the_cluster_and_the_figures_come_back(
    gated: KubeOpsctl,
) -> None:
    done = gated.run("deploy")
    # What it finds is the machine's affair; that it found something is ours.
    assert done.exit_code in (0, 10), done.stderr
    found = sorted(gated.light.root.rglob("reports/0002/gate-1.json"))
    report = json.loads(found[0].read_text())
    assert report["machine"]["machine"] == NOWHERE
    assert report["rounds"] > 0
    arms = report["batch_sizes"]["1"]
    assert arms["baseline"]["requests"] == arms["candidate"]["requests"] == report["rounds"]
    assert arms["candidate"]["errors"] == 0
    assert left(gated) == []


def test_a_job_whose_opsctl_was_killed_goes_with_the_next_command(
    gated: KubeOpsctl, tmp_path: Path
) -> None:
    process = gated.spawn(tmp_path / "killed.log", "deploy")
    wait_until(lambda: len(left(gated)) == 2, "the Job and what it reads are there")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = gated.elsewhere(tmp_path / "elsewhere").run("abort")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr
    assert left(gated) == []
