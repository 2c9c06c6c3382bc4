"""What the chart is told of a state: equal arms, and the numbers that autoscalers have chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.model import DesiredState, Guard, Json, Share, Stamp
from opsctl.targets.kubernetes import values
from opsctl.targets.kubernetes.desired import Order
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.target import KubernetesTarget
from tests.kubernetes.projects import project

SMALL = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
LARGE = {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}


def target_of(folder: Path, releases: dict[str, Json], mode: str = "route") -> KubernetesTarget:
    """A target that asks nobody: its releases, by their pods' settings, are known already."""
    gateway = {"gateway": {"name": "front"}} if mode == "route" else {}
    made = KubernetesTarget(project(folder, "light@sha256:1", {"traffic": mode, **gateway}))
    made.known_releases = {
        name: {"launch": {"image": "light@sha256:1", "container": {"base": "", "pod": pod}}}
        for name, pod in releases.items()
    }
    return made


def arms(folder: Path, on_trial: str | None) -> dict[tuple[str, str], Json]:
    """Resources by release and role while a benchmark of r2 runs."""
    target = target_of(folder, {"r1": {"resources": SMALL}, "r2": {"resources": LARGE}})
    state = DesiredState((Share("r1", 2, 100), Share("r1", 1, role="baseline"), Share("r2", 1, 0)))
    order = Order(state, Stamp(1, 1), Guard(state, on_trial=on_trial))
    made = values.of_state(target, state, order, {})
    return {(one["name"], one["role"]): one["pod"]["resources"] for one in made["releases"]}


def test_both_arms_of_a_benchmark_have_the_candidates_resources(tmp_path: Path) -> None:
    assert arms(tmp_path, "r2") == {
        ("r1", "serving"): SMALL, ("r1", "baseline"): LARGE, ("r2", "serving"): LARGE,
    }  # fmt: skip


def test_without_a_candidate_a_baseline_is_as_its_release_is(tmp_path: Path) -> None:
    assert arms(tmp_path, None)["r1", "baseline"] == SMALL


@pytest.mark.parametrize(
    ("weight", "on_trial", "release"),
    [(0, "r2", ""), (25, "r2", "r2"), (100, "r2", ""), (25, None, "")],
)
def test_a_candidate_gets_copies_of_requests_as_long_as_it_has_a_part_of_the_traffic(
    tmp_path: Path, weight: int, on_trial: str | None, release: str
) -> None:
    gateway = {"name": "front", "mirror": True}
    target = KubernetesTarget(
        project(tmp_path, "light@sha256:1", {"traffic": "route", "gateway": gateway})
    )
    pod = {"resources": SMALL}
    target.known_releases = {
        name: {"launch": {"image": "light@sha256:1", "container": {"base": "", "pod": pod}}}
        for name in ("r1", "r2")
    }
    state = DesiredState((Share("r1", 2, 100 - weight), Share("r2", 2, weight)))
    order = Order(state, Stamp(1, 1), Guard(state, on_trial=on_trial))
    made = values.of_state(target, state, order, {})
    assert made["traffic"].get("mirror", {"release": ""}) == {"release": release}


def deployment(release: str, replicas: int) -> Json:
    labels = {"opsctl/release": release, "opsctl/role": "serving"}
    return {"metadata": {"labels": labels}, "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("mode", "enabled", "wanted"),
    [("route", True, 5), ("route", False, 2), ("selector", True, 2)],
)
def test_the_number_of_replicas_is_the_autoscalers_where_there_is_one(
    tmp_path: Path, mode: str, enabled: bool, wanted: int
) -> None:
    target = target_of(tmp_path, {"r1": {"autoscaling": {"enabled": enabled}}}, mode)
    live = Live(None, (), (deployment("r1", 5), deployment("r2", 9)))
    state = DesiredState((Share("r1", 2, 100), Share("r1", 1, role="baseline")))
    assert values.as_scaled(target, state, live) == DesiredState(
        (Share("r1", wanted, 100), Share("r1", 1, role="baseline"))
    )


def test_a_release_that_the_autoscaler_has_no_deployment_of_is_as_ordered(tmp_path: Path) -> None:
    target = target_of(tmp_path, {"r1": {"autoscaling": {"enabled": True}}})
    state = DesiredState((Share("r1", 2, 100),))
    assert values.as_scaled(target, state, Live(None, (), ())) == state
