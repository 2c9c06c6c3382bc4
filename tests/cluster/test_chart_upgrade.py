"""Every chart that was ever released goes over into this one, and back, without a restart.

A chart that is released is kept in tests/helm/charts/ (`helm package helm`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.kubernetes import CHART, HELMS, Cluster
from tests.cluster.test_chart import pods, release, values

pytestmark = [pytest.mark.cluster, pytest.mark.long]

RELEASED = sorted((Path(__file__).parents[1] / "helm" / "charts").glob("*.tgz"))


@pytest.mark.parametrize("major", HELMS)
@pytest.mark.parametrize("chart", RELEASED, ids=lambda path: path.stem)
def test_an_upgrade_of_the_chart_and_a_rollback_restart_no_pod(
    cluster: Cluster, namespace: str, major: str, chart: Path
) -> None:
    where = ("--namespace", namespace)
    given = values(release(cluster, "r1", weight=100))
    cluster.helm(major, "install", "light", str(chart), *where, values=given)
    cluster.roll_out(namespace, "light-r1")
    before = pods(cluster, namespace, "r1")
    assert len(before) == 1
    cluster.helm(major, "upgrade", "light", str(CHART), *where, values=given)
    cluster.roll_out(namespace, "light-r1")
    assert pods(cluster, namespace, "r1") == before
    cluster.helm(major, "rollback", "light", "1", *where)
    cluster.roll_out(namespace, "light-r1")
    assert pods(cluster, namespace, "r1") == before
    history = json.loads(cluster.helm(major, "history", "light", *where, "--output", "json"))
    assert [one["status"] for one in history] == ["superseded", "superseded", "deployed"]
