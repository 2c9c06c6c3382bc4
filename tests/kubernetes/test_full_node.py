"""A node whose NPUs are all in use: a deploy, a bad one and a rollback, a replica at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apps.processes import start_client
from tests.apps.project import CANDIDATES, Options
from tests.cluster.kubernetes import Cluster
from tests.cluster.npus import npus
from tests.kubernetes.light_project import KubeLight, KubeOpsctl, light_in

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

CARDS = 4
RATE_PER_S = 40.0
LOOK_S = 0.5


@pytest.fixture
def full(cluster: Cluster, room: str, image: str, tmp_path: Path) -> Iterator[KubeOpsctl]:
    """A service with one replica on each card, which has no room for one more."""
    options = Options(replicas=CARDS, gate=False, strategy="recreate")
    project = light_in(cluster, room, tmp_path / "project", image, options)
    # Only absolute limits gate here, and there is no benchmark.
    project.edit(lambda service: service["kubernetes"].update(npu={"chip": "910b"}))
    with npus(cluster, CARDS):
        yield KubeOpsctl(project, project)


@contextmanager
def fewest(project: KubeLight) -> Iterator[list[int]]:
    """How many replicas answer, looked at again and again."""
    seen: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_S):
            path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
            where = ("-n", project.namespace, "-l", "opsctl/role=serving")
            told = project.cluster.kubectl("get", "pods", *where, "-o", path)
            seen.append(told.split().count("True"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def test_one_replica_at_a_time_is_away_there_and_back(full: KubeOpsctl) -> None:
    project = full.light
    assert full.run("deploy").exit_code == 0
    with start_client(project, project.root, rate=RATE_PER_S) as client, fewest(project) as seen:
        project.change(CANDIDATES["code"], 2)
        done = full.run("deploy")
        assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
        project.change(CANDIDATES["wrong_value"], 3)
        bad = full.run("deploy")
        assert (bad.exit_code, bad.data["serving_release"]) == (10, "r2"), bad.stderr
        back = full.run("rollback")
        assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
        users = client.stop()
    assert users["failed"] == 0, users["failures"][:5]
    # A replica that goes is away at once, and the one that comes not yet there.
    assert min(seen) >= CARDS - 1
    assert max(seen) <= CARDS
    observed = full.status()["observed"]
    assert (observed["weights"], len(observed["replicas"])) == ({"r1": 100}, CARDS)
