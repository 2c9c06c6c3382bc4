"""The chart on a real node: what it makes is accepted, runs, answers and shares traffic."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import CHART, HELMS, Cluster, Refused, ask, wait_until
from tests.cluster.npus import npus
from tests.helm.rendering import CASES, values_path

pytestmark = [pytest.mark.cluster]

PATH = "/v1/models/light"
POD: dict[str, Any] = {
    "model": {"claim": "", "path": ""},
    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    "probes": {
        "startup": {"periodSeconds": 1, "failureThreshold": 120},
        "readiness": {"periodSeconds": 1},
    },
    "drain": {"preStopSeconds": 0, "timeoutSeconds": 5},
}


def release(cluster: Cluster, name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "image": cluster.image, "replicas": 1, **keys}


def values(*releases: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Values of service `light` with these releases."""
    return {
        "service": "light",
        "traffic": {"mode": "selector"},
        "front": {"type": "NodePort"},
        "pod": POD,
        "test": {"command": ["/light", "get"]},
        "releases": list(releases),
        **keys,
    }


class Installed:
    """One Helm release, `light`, in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, major: str = "4") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.major = major

    def upgrade(self, values: dict[str, Any]) -> None:
        """Put values in force and wait until their releases run."""
        self.cluster.helm(
            self.major, "upgrade", "--install", "light", str(CHART),
            "--namespace", self.namespace, values=values,
        )  # fmt: skip
        for release in values["releases"]:
            self.cluster.roll_out(self.namespace, f"light-{release['name']}")

    def shares(self, port: int, requests: int, headers: dict[str, str] | None = None) -> Any:
        """How many answers each release gave."""
        counts: dict[str, int] = {}
        for _ in range(requests):
            answer = ask(self.cluster.address, port, PATH, headers)
            assert answer.status == 200
            counts[answer.release] = counts.get(answer.release, 0) + 1
        return counts


@pytest.fixture(params=HELMS)
def installed(cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> Installed:
    return Installed(cluster, namespace, request.param)


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_every_supported_combination(
    cluster: Cluster, namespace: str, case: str
) -> None:
    cluster.kubectl("apply", "--server-side", "-f", cluster.variables["CLUSTER_MONITORING_KINDS"])
    made = cluster.helm(
        "4", "template", "anomaly", str(CHART), "--namespace", namespace,
        "--values", str(values_path(case)),
    )  # fmt: skip
    answers = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", given=made
    ).splitlines()
    documents = [one for one in yaml.safe_load_all(made) if one]
    assert len(answers) == len(documents)
    assert all(answer.endswith("serverside-applied (server dry run)") for answer in answers)


@pytest.mark.parametrize("case", CASES)
def test_pods_are_allowed_at_the_level_that_the_deployment_states(
    cluster: Cluster, namespace: str, case: str
) -> None:
    made = cluster.helm(
        "4", "template", "anomaly", str(CHART), "--namespace", namespace,
        "--values", str(values_path(case)),
    )  # fmt: skip
    deployments = [one for one in yaml.safe_load_all(made) if one and one["kind"] == "Deployment"]
    for deployment in deployments:
        level = deployment["metadata"]["annotations"]["opsctl/pod-security"]
        assert level == ("privileged" if case == "npu-host" else "restricted")
        pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
        pod["metadata"]["name"] = "try"
        pod["spec"]["serviceAccountName"] = "default"
        # A class and a priority that the cluster does not have are another matter.
        pod["spec"].pop("runtimeClassName", None)
        told = refusal(cluster, namespace, pod)
        assert ("violates PodSecurity" in told) == (level == "privileged"), told
        assert told == "" or level == "privileged"


def refusal(cluster: Cluster, namespace: str, pod: dict[str, Any]) -> str:
    """Why the API server would not take a pod; empty when it would."""
    try:
        cluster.kubectl(
            "create", "--dry-run=server", "-n", namespace, "-f", "-", given=yaml.safe_dump(pod)
        )
    except Refused as error:
        return str(error)
    return ""


def test_an_installed_service_answers_and_passes_its_own_test(installed: Installed) -> None:
    cluster, namespace = installed.cluster, installed.namespace
    installed.upgrade(values(release(cluster, "r1", replicas=2, weight=100)))
    port = cluster.node_port(namespace, "light")
    wait_until(lambda: ask(cluster.address, port, PATH).status == 200, "the service answers")
    assert ask(cluster.address, port, PATH).release == "r1"
    told = cluster.helm(installed.major, "test", "light", "--namespace", namespace, "--logs")
    assert "Phase:          Succeeded" in told or "Succeeded" in told
    assert "200 r1" in told


def test_traffic_goes_from_release_to_release_by_the_selector(
    cluster: Cluster, namespace: str
) -> None:
    installed = Installed(cluster, namespace)
    old = release(cluster, "r1", replicas=3)
    new = release(cluster, "r2", base="r1")
    installed.upgrade(values({**old, "weight": 100}))
    port = cluster.node_port(namespace, "light")
    wait_until(lambda: ask(cluster.address, port, PATH).status == 200, "the service answers")
    # A candidate that runs is in no rotation before it has weight.
    installed.upgrade(values({**old, "weight": 100}, new))
    assert installed.shares(port, 40) == {"r1": 40}
    installed.upgrade(values({**old, "weight": 75}, {**new, "weight": 25}))
    wait_until(lambda: "r2" in installed.shares(port, 20), "the new release gets its share")
    shares = installed.shares(port, 400)
    # Each connection goes to one of four pods by chance: 100 ± 6 standard deviations.
    assert 48 <= shares["r2"] <= 152
    installed.upgrade(values(old, {**new, "weight": 100, "replicas": 3}))
    wait_until(lambda: installed.shares(port, 20) == {"r2": 20}, "the old release has no traffic")
    assert installed.shares(port, 40) == {"r2": 40}
    # And back, while the old release is still warm.
    installed.upgrade(values({**old, "weight": 100}, new))
    wait_until(lambda: installed.shares(port, 20) == {"r1": 20}, "the old release is back")


def test_what_does_not_change_in_a_release_restarts_no_pod(
    cluster: Cluster, namespace: str
) -> None:
    installed = Installed(cluster, namespace)
    old = {**release(cluster, "r1", weight=100), "pod": POD}
    installed.upgrade(values(old))
    before = pods(cluster, namespace, "r1")
    other = {**POD, "env": {"NEW": "1"}, "nodeSelector": {"kubernetes.io/os": "linux"}}
    whole = values(old, {**release(cluster, "r2", base="r1"), "pod": other})
    installed.upgrade({**whole, "state": {"epoch": 2, "sequence": 9, "digest": "ab"}})
    assert pods(cluster, namespace, "r1") == before
    annotations = cluster.get("service", "light", "-n", namespace)["metadata"]["annotations"]
    assert {name: annotations[f"opsctl/{name}"] for name in ("epoch", "sequence", "digest")} == {
        "epoch": "2",
        "sequence": "9",
        "digest": "ab",
    }


def pods(cluster: Cluster, namespace: str, name: str) -> set[str]:
    """Identities of a release's pods."""
    found = cluster.get("pods", "-n", namespace, "-l", f"opsctl/release={name}")
    return {pod["metadata"]["uid"] for pod in found["items"]}


def test_a_route_shares_traffic_exactly_and_sends_a_header_to_the_candidate(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    installed = Installed(cluster, namespace)
    route = {"mode": "route", "gateway": {"name": "front"}}
    tried = {**route, "header": {"name": "X-Try", "value": "yes", "release": "r2"}}
    old, new = release(cluster, "r1"), release(cluster, "r2", base="r1")
    with traefik(cluster, namespace, tmp_path) as port:
        installed.upgrade(values({**old, "weight": 100}, {**new, "weight": 0}, traffic=tried))
        wait_until(lambda: ask(cluster.address, port, PATH).status == 200, "the route answers")
        assert installed.shares(port, 40) == {"r1": 40}
        assert installed.shares(port, 10, {"X-Try": "yes"}) == {"r2": 10}
        installed.upgrade(values({**old, "weight": 75}, {**new, "weight": 25}, traffic=tried))
        wait_until(lambda: "r2" in installed.shares(port, 20), "the new release gets its share")
        shares = installed.shares(port, 400)
        assert abs(shares["r2"] - 100) <= 4
        installed.upgrade(values(old, {**new, "weight": 100}, traffic=route))
        wait_until(lambda: installed.shares(port, 20) == {"r2": 20}, "all traffic has moved")


def test_npus_are_asked_for_and_a_missing_one_is_told(cluster: Cluster) -> None:
    name = f"t-{secrets.token_hex(4)}"
    with cluster.namespace(name) as namespace, npus(cluster, 2):
        installed = Installed(cluster, namespace)
        pod = {**POD, "npu": {"chip": "910b", "count": 2, "runtimeClass": "ascend"}}
        one = {**release(cluster, "r1", weight=100), "pod": pod}
        installed.upgrade(values(one, runtimeClass={"create": True}))
        made = cluster.get("pods", "-n", namespace, "-l", "opsctl/release=r1")["items"][0]["spec"]
        limits = made["containers"][0]["resources"]
        assert limits["limits"]["huawei.com/Ascend910"] == "2"
        assert limits["requests"]["huawei.com/Ascend910"] == "2"
        assert made["runtimeClassName"] == "ascend"
        # The second replica finds no card, and the scheduler says so.
        cluster.helm(
            "4", "upgrade", "light", str(CHART), "-n", namespace,
            values=values({**one, "replicas": 2}, runtimeClass={"create": True}),
        )  # fmt: skip
        wait_until(
            lambda: "Insufficient huawei.com/Ascend910" in events(cluster, namespace),
            "the missing card is told",
        )
        cluster.helm("4", "uninstall", "light", "-n", namespace)


def events(cluster: Cluster, namespace: str) -> str:
    """What happened in a namespace."""
    return cluster.kubectl("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].message}")
