"""Reasons told from what a real kubelet and API server once said (recorded/reasons.json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from opsctl.targets.kubernetes import reasons
from tests.kubernetes.broken import EXPECTED, REFUSED

RECORDED = json.loads((Path(__file__).parent / "recorded" / "reasons.json").read_text())
EVENTS: list[dict[str, Any]] = RECORDED["events"]


def recorded(name: str, kind: str = "Pod") -> dict[str, Any]:
    """One object as the cluster gave it."""
    found = [
        one for one in RECORDED["objects"]
        if one["kind"] == kind and one["metadata"]["name"].startswith(name)
    ]  # fmt: skip
    return copy.deepcopy(found[0])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_pod_tells_why_it_will_not_come_up(name: str) -> None:
    expected = EXPECTED[name]
    reason = reasons.explain([recorded(name)], EVENTS)
    assert reason is not None
    assert reason.object == f"pod {name}"
    assert reason.reason in expected.reasons
    assert expected.what in reason.what
    assert expected.next_step in reason.next_step
    assert reason.final == expected.final
    assert (reasons.terminal(recorded(name), EVENTS) is not None) == expected.final


def test_a_pod_that_is_well_has_no_reason() -> None:
    assert reasons.explain([recorded("well")], EVENTS) is None


def test_a_container_that_runs_again_after_it_was_killed_is_well() -> None:
    pod = recorded("memory")
    pod["status"]["containerStatuses"][0]["ready"] = True
    assert reasons.terminal(pod, EVENTS) is None


def test_the_log_of_a_crash_is_that_of_the_run_before() -> None:
    reason = reasons.first([recorded("crash")], EVENTS)
    assert reason is not None
    assert (reason.container, reason.previous) == ("service", True)


def test_a_pod_that_goes_away_has_no_reason() -> None:
    pod = recorded("crash")
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert reasons.explain([pod], EVENTS) is None


def test_a_missing_card_is_waited_for_while_another_pod_goes_away() -> None:
    leaving = recorded("well")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert reasons.first([recorded("npu"), leaving], EVENTS) is None
    assert reasons.first([recorded("npu")], EVENTS) is not None


def test_a_missing_card_is_waited_for_when_an_autoscaler_brings_a_node() -> None:
    pod = recorded("npu")
    grows = {
        "involvedObject": {"uid": pod["metadata"]["uid"]},
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up",
        "metadata": {"creationTimestamp": "2026-11-30T12:00:00Z"},
    }
    assert reasons.first([pod], [*EVENTS, grows]) is None


def test_nodes_of_the_wrong_kind_say_nothing_while_another_only_lacks_room() -> None:
    pod = recorded("node")
    condition = pod["status"]["conditions"][0]
    condition["message"] = (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node"
        " affinity/selector. preemption: 0/3 nodes are available."
    )
    assert reasons.first([pod], EVENTS) is None


def test_a_claim_whose_volume_is_being_made_is_waited_for() -> None:
    claim = recorded("unbound", "PersistentVolumeClaim")
    provisioning = {
        "involvedObject": {"uid": claim["metadata"]["uid"]},
        "reason": "ExternalProvisioning",
        "message": "waiting for a volume to be created",
        "metadata": {"creationTimestamp": "2099-11-30T12:00:00Z"},
    }
    objects = [recorded("claim-unbound"), claim]
    assert reasons.first(objects, [*EVENTS, provisioning]) is None
    first = reasons.first([claim], EVENTS)
    assert first is not None
    assert first.reason == "ClaimUnbound"
    assert first.last_event.startswith("FailedBinding: no persistent volumes available")


@pytest.mark.parametrize("name", REFUSED)
def test_a_replica_set_tells_why_its_pods_are_refused(name: str) -> None:
    reason, said = REFUSED[name]
    found = reasons.explain([recorded(name, "ReplicaSet")], EVENTS)
    assert found is not None
    assert found.object.startswith(f"replica set {name}-")
    assert found.reason == reason
    assert said in found.what
    assert found.final == (reason != "WebhookFailed")


def test_a_pod_that_the_device_plugin_refused_is_final_and_one_of_a_full_node_is_not() -> None:
    # Words of the kubelet's device manager (pkg/kubelet/cm/devicemanager) at 1.34.
    pod = recorded("well")
    said = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
    pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": said}
    finding = reasons.terminal(pod, EVENTS)
    assert finding is not None
    assert finding.what.startswith(f"UnexpectedAdmissionError: {said}")
    pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": "low on resource: memory"}
    assert reasons.terminal(pod, EVENTS) is None
