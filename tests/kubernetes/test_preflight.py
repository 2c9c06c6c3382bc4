"""Preflight of the cluster: what nodes have, without a cluster."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from opsctl.targets.kubernetes import capacity
from opsctl.targets.kubernetes.nodes import driver_finding
from opsctl.targets.kubernetes.preflight import numbers, selects

NPU = "huawei.com/Ascend910"
NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"hardware-type": "ascend-npu"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", NPU: "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def node(name: str = "n1", **labels: str) -> dict[str, Any]:
    made = copy.deepcopy(NODE)
    made["metadata"]["name"] = name
    made["metadata"]["labels"].update(labels)
    return made


def pod(*, on: str = "", npus: int = 2, cpu: str = "2", phase: str = "Running") -> dict[str, Any]:
    limits = {"memory": "4Gi", NPU: str(npus)}
    container = {"resources": {"requests": {"cpu": cpu, **limits}, "limits": limits}}
    spec = {"containers": [container], "nodeSelector": {"hardware-type": "ascend-npu"}}
    return {"spec": {**spec, "nodeName": on}, "status": {"phase": phase}}


WANTED = capacity.demand(pod()["spec"])


@pytest.mark.parametrize(
    ("text", "amount"),
    [("100m", "0.1"), ("4Gi", "4294967296"), ("8", "8"), ("1k", "1000"), ("1.5Mi", "1572864")],
)
def test_quantities_are_those_of_kubernetes(text: str, amount: str) -> None:
    assert capacity.quantity(text) == Decimal(amount)


def test_a_replica_takes_the_sum_of_its_containers_or_the_largest_that_runs_before_them() -> None:
    spec = pod(npus=2)["spec"]
    spec["containers"].append({"resources": {"limits": {"cpu": "500m"}}})
    spec["initContainers"] = [{"resources": {"requests": {"memory": "6Gi", "cpu": "1"}}}]
    spec["overhead"] = {"cpu": "250m"}
    found = capacity.requests(spec)
    assert found == {
        "pods": 1,
        "cpu": Decimal("2.75"),
        "memory": Decimal(6 * 2**30),
        NPU: 2,
    }


def test_room_is_what_the_scarcest_resource_leaves() -> None:
    nodes = [node("n1"), node("n2")]
    taken = [pod(on="n1", npus=6), pod(on="n1", npus=2, phase="Succeeded"), pod(on="n2", cpu="28")]
    room = capacity.room(WANTED, nodes, taken)
    # n1: 8 − 6 cards for 2 each; n2: 32 − 28 CPUs for 2 each. What has ended takes nothing.
    assert room.slots == {"n1": 1, "n2": 2}
    assert room.free == 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"metadata": {"name": "n1", "labels": {"hardware-type": "cpu"}}},
            "label hardware-type is cpu, not ascend-npu",
        ),
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "taint a"),
        ({"spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}}, ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "not ready"),
    ],
)  # fmt: skip
def test_a_node_that_may_not_be_used_says_why(change: dict[str, Any], why: str) -> None:
    one = {**node(), **change}
    assert capacity.obstacle(WANTED, one) == why
    assert capacity.room(WANTED, [one], []).refused == ({"n1": why} if why else {})


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": NPU, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": NPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": NPU, "value": "yes"}, True),
        ({"key": NPU, "value": "no"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_is_for_the_taints_that_it_names(
    toleration: dict[str, str], tolerated: bool
) -> None:
    taint = {"key": NPU, "value": "yes", "effect": "NoSchedule"}
    assert capacity.tolerates(toleration, taint) == tolerated


def test_what_no_empty_node_has_is_named_with_the_most_that_one_has() -> None:
    wanted = capacity.demand(pod(npus=16)["spec"])
    assert capacity.lacking(wanted, [node("n1"), node("n2")]) == {NPU: 8}
    assert capacity.lacking(WANTED, [node("n1")]) == {}
    assert capacity.resources_of([node("n1")], "huawei.com/") == [NPU]


def test_a_quota_is_passed_by_what_is_asked_for_more() -> None:
    quota = {
        "metadata": {"name": "team"},
        "status": {
            "hard": {"pods": "10", "requests.cpu": "8", f"requests.{NPU}": "8", "limits.cpu": "1"},
            "used": {"pods": "4", "requests.cpu": "4", f"requests.{NPU}": "6"},
        },
    }
    assert capacity.over_quota(WANTED, 1, [quota]) == []
    assert capacity.over_quota(WANTED, 2, [quota]) == [
        f"team has 2 of requests.{NPU} left, 2 more replicas need 4"
    ]


def test_a_driver_older_than_the_matrix_allows_is_named_with_its_node() -> None:
    nodes = [
        node("n1", **{"huawei.com/driver.version": "24.1.rc3"}),
        node("n2", **{"huawei.com/driver.version": "25.0.rc1"}),
    ]
    finding = driver_finding("8.1.RC1", "25.0.RC1", nodes)
    assert finding.status == "fail"
    assert finding.what == (
        "CANN 8.1.RC1 needs driver 25.0.RC1 or newer; node n1 has 24.1.rc3 (1 such nodes)"
    )
    assert driver_finding("8.1.RC1", "25.0.RC1", nodes[1:]).status == "ok"
    assert driver_finding("8.1.RC1", "25.0.RC1", [node()]).status == "unknown"


@pytest.mark.parametrize(
    ("version", "found"),
    [("v1.34.4", (1, 34)), ("v3.22.0+g1a", (3, 22)), ("1.30+", (1, 30)), ("none", (0, 0))],
)
def test_versions_are_compared_as_numbers(version: str, found: tuple[int, int]) -> None:
    assert numbers(version) == found


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "light"}}, True),
        ({"matchLabels": {"app": "light", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["light"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["light"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_a_selector_takes_the_labels_that_kubernetes_would(
    selector: dict[str, Any] | None, chosen: bool
) -> None:
    assert selects(selector, {"app": "light"}) == chosen
