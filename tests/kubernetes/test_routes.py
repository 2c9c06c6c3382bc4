"""Traffic by an HTTPRoute of a real Gateway, as opsctl's canary orders it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.project import CANDIDATES
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import ask, wait_until
from tests.kubernetes.light_project import KubeOpsctl, by_route

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

MODEL = "/v1/models/light"


@pytest.fixture
def routed(light: KubeOpsctl, tmp_path: Path) -> Iterator[KubeOpsctl]:
    """The light service behind a Gateway, with a canary stage that lasts."""
    project = light.light
    stages = [{"weight": 25, "hold_s": 600}]
    project.edit(lambda service: service["strategy"].update(stages=stages))
    with traefik(project.cluster, project.namespace, tmp_path) as port:
        own = by_route(project, port)
        own.edit(lambda service: service["kubernetes"]["gateway"].update(try_header="X-Try: yes"))
        yield KubeOpsctl(own, own)


def answers(light: KubeOpsctl, count: int, **headers: str) -> dict[str, int]:
    """How many of `count` requests each release answers."""
    project = light.light
    told = (ask(project.cluster.address, project.door, MODEL, headers) for _ in range(count))
    return dict(Counter(answer.release for answer in told))


def test_a_canary_has_its_exact_share_and_all_requests_with_the_header(
    routed: KubeOpsctl, tmp_path: Path
) -> None:
    assert routed.run("deploy").exit_code == 0
    assert routed.status()["observed"]["front_url"] == (
        f"http://{routed.light.cluster.address}:{routed.light.door}"
    )
    routed.light.change(CANDIDATES["code"], 2)
    tried = {"X-Try": "yes"}
    assert answers(routed, 10, **tried) == {"r1": 10}
    deploy = routed.spawn(tmp_path / "deploy.log", "deploy")
    wait_until(
        lambda: routed.status()["observed"]["weights"] == {"r1": 75, "r2": 25}, "r2 has its share"
    )
    wait_until(lambda: answers(routed, 10, **tried) == {"r2": 10}, "the header leads to r2")
    shares = answers(routed, 400)
    assert abs(shares["r2"] - 100) <= 4
    assert sum(shares.values()) == 400
    # Who is interrupted takes the candidate off all traffic, those with the header included.
    os.killpg(deploy.pid, signal.SIGINT)
    assert deploy.wait(120) == 130
    wait_until(lambda: answers(routed, 10, **tried) == {"r1": 10}, "the header leads to r1 again")
    assert routed.status()["observed"]["weights"] == {"r1": 100}
    assert routed.run("abort").exit_code == 0
    assert answers(routed, 20) == {"r1": 20}


def test_a_gateway_that_can_not_send_copies_of_requests_is_told_before_anything_is_touched(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    project = light.light
    with traefik(project.cluster, project.namespace, tmp_path) as port:
        own = by_route(project, port)
        own.edit(lambda service: service["kubernetes"]["gateway"].update(mirror=True))
        refused = KubeOpsctl(own, own).run("deploy")
    assert refused.exit_code == 4
    # What Traefik says of itself in the status of its class.
    assert "GatewayClass traefik-of-tests has no HTTPRouteRequestMirror" in refused.stderr
    assert "Unset kubernetes.gateway.mirror" in refused.stderr
    assert project.cluster.get("deployments", "-n", project.namespace)["items"] == []
