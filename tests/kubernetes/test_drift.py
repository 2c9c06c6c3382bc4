"""Drift told from a Deployment that people had edited on a real cluster (recorded/drift.json).

Helm 4 had made it; then came kubectl scale and kubectl set env.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from opsctl.targets.kubernetes import drift
from opsctl.targets.kubernetes.api import Missing
from opsctl.targets.target import Drift

RECORDED = json.loads((Path(__file__).parent / "recorded" / "drift.json").read_text())
ENV = "spec.template.spec.containers[service].env"
NAME = "Deployment light-r1"
EDITS = [
    Drift(NAME, "spec.replicas", 2, 1, "kubectl"),
    Drift(NAME, f"{ENV}[DB_PASSWORD].value", None, "***", "kubectl-set"),
    Drift(NAME, f"{ENV}[EXTRA].value", None, "1", "kubectl-set"),
    Drift(NAME, f"{ENV}[TF_CPP_MIN_LOG_LEVEL].value", "2", "0", "kubectl-set"),
]


class Api:
    """A cluster with what was recorded."""

    def __init__(self, live: dict[str, Any] | None) -> None:
        self.live = live
        self.applied: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        if path == "/apis/apps/v1":
            kind = {"kind": "Deployment", "name": "deployments", "namespaced": True}
            scale = {"kind": "Scale", "name": "deployments/scale", "namespaced": True}
            return {"resources": [scale, kind]}
        assert path == "/apis/apps/v1/namespaces/ai/deployments/light-r1"
        if self.live is None:
            raise Missing("there is none")
        return self.live

    def apply(self, path: str, body: dict[str, Any], **query: Any) -> dict[str, Any]:
        assert query == {"dryRun": "All", "force": "true"}
        self.applied.append((path, body))
        made: dict[str, Any] = RECORDED["made"]
        return made


def test_every_edit_is_told_with_both_values_and_who_made_it() -> None:
    api = Api(RECORDED["live"])
    assert list(drift.drift(api, [RECORDED["manifest"]], "ai")) == EDITS
    ((path, body),) = api.applied
    assert path == "/apis/apps/v1/namespaces/ai/deployments/light-r1"
    assert body == RECORDED["manifest"]


def test_what_the_server_and_its_controllers_fill_in_is_no_difference() -> None:
    live = copy.deepcopy(RECORDED["made"])
    live["metadata"]["managedFields"] = [
        entry for entry in RECORDED["live"]["metadata"]["managedFields"]
        if entry["manager"] in ("helm", "kube-controller-manager")
    ]  # fmt: skip
    live["metadata"].update(resourceVersion="999", generation=7)
    assert list(drift.drift(Api(live), [RECORDED["manifest"]], "ai")) == []
    filled_in = drift.leaves(live).keys() - drift.leaves(RECORDED["manifest"]).keys()
    assert "spec.progressDeadlineSeconds" in filled_in
    assert "metadata.annotations.deployment.kubernetes.io/revision" in filled_in


def test_an_object_that_was_deleted_is_told() -> None:
    assert list(drift.drift(Api(None), [RECORDED["manifest"]], "ai")) == [
        Drift(NAME, "", "there", None)
    ]


def test_a_kind_that_the_cluster_lost_is_told_like_a_deleted_object() -> None:
    other = {**RECORDED["manifest"], "kind": "Rollout"}
    assert list(drift.drift(Api(None), [other], "ai")) == [
        Drift("Rollout light-r1", "", "there", None)
    ]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (EDITS[0], "Deployment light-r1 spec.replicas: 2 → 1 (by kubectl)"),
        (Drift(NAME, "", "there", None), "Deployment light-r1: there → nothing"),
        (Drift(NAME, "", None, "there"), "Deployment light-r1: nothing → there"),
    ],
)
def test_a_difference_reads_as_one_line(one: Drift, line: str) -> None:
    assert str(one) == line


def test_secrets_are_masked_whatever_their_keys_are_called() -> None:
    assert drift.hidden("Secret x", "data.innocent", "aGVsbG8=") == "***"
    assert drift.hidden("ConfigMap x", "data.api_key", "abc") == "***"
    assert drift.hidden("ConfigMap x", "data.innocent", "abc") == "abc"
    assert drift.hidden(NAME, f"{ENV}[AUTH_TOKEN].value", "abc") == "***"
    assert drift.hidden(NAME, f"{ENV}[AUTH_TOKEN].value", None) is None
