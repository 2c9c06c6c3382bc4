"""How often the API is asked for what changes seldom, and for what many replicas know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opsctl.model import Json
from opsctl.targets.kubernetes import front
from opsctl.targets.kubernetes.target import KubernetesTarget
from opsctl.targets.kubernetes.traffic import ASKED_AT_ONCE, Pod, due
from tests.kubernetes.projects import project


def pods(release: str, count: int) -> list[Pod]:
    return [Pod(f"{release}-{number}", 8080, release, True) for number in range(count)]


def test_few_replicas_are_asked_in_each_turn() -> None:
    all_pods = [*pods("r1", 3), *pods("r2", 1)]
    for turn in range(3):
        assert {pod.name for pod in due(all_pods, turn)} == {"r1-0", "r1-1", "r1-2", "r2-0"}


def test_of_many_replicas_each_has_its_turn_and_no_release_waits_for_another() -> None:
    all_pods = [*pods("r1", 792), *pods("r2", 8)]
    asked: list[str] = []
    for turn in range(80):
        now = [pod.name for pod in due(all_pods, turn)]
        assert len(now) == ASKED_AT_ONCE + 8
        assert sum(name.startswith("r2-") for name in now) == 8
        asked += now
    assert {pod.name for pod in all_pods} == set(asked)


class Gateways:
    """An API with one Gateway, that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str, **_: Any) -> Json:
        self.asked.append(path)
        listeners = [{"name": "web", "port": 8080}]
        return {"spec": {"listeners": listeners}, "status": {"addresses": [{"value": "10.0.0.9"}]}}


def test_the_gateways_address_is_asked_for_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"traffic": "route", "namespace": "ai", "gateway": {"name": "front"}}
    target = KubernetesTarget(project(tmp_path, "light@sha256:1", settings))
    api = Gateways()
    target.api = api  # type: ignore[assignment]
    for _ in range(50):
        assert front.door_of(target, None).url == "http://10.0.0.9:8080"
    path = "/apis/gateway.networking.k8s.io/v1/namespaces/ai/gateways/front"
    assert api.asked == [path]
    monkeypatch.setattr(front, "KNOWN_S", -1.0)
    front.door_of(target, None)
    assert api.asked == [path, path]
