"""The plain manifests are the chart's objects, for every supported combination."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from opsctl.errors import ConfigError
from opsctl.render import chart_values, manifests
from tests.helm.rendering import CASES, INSTANCE, NAMESPACE, golden, objects, values_path

PLACE = manifests.Place(NAMESPACE, INSTANCE, managed_by="Helm")
BASIC: dict[str, Any] = {
    "traffic": {"mode": "selector"},
    "releases": [{"name": "r1", "weight": 100, "image": "registry.example/anomaly:1"}],
}


def release(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "image": "registry.example/anomaly:1", **keys}


def rendered(values: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Objects by kind and name."""
    made = objects(manifests.render(values, PLACE))
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def front(*releases: dict[str, Any], mode: str = "selector") -> dict[str, str]:
    """What the front Service selects."""
    made = rendered({"traffic": {"mode": mode}, "releases": list(releases)})
    selector: dict[str, str] = made["Service", INSTANCE]["spec"]["selector"]
    return selector


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_are_the_objects_of_the_chart(case: str) -> None:
    values = yaml.safe_load(values_path(case).read_text())
    assert objects(manifests.render(values, PLACE)) == golden(case)


def test_the_front_service_selects_the_one_release_with_traffic() -> None:
    assert front(release("r1", weight=100), release("r2", base="r1", replicas=2)) == {
        "app.kubernetes.io/name": INSTANCE,
        "opsctl/release": "r1",
        "opsctl/role": "serving",
    }


def test_two_releases_share_the_front_service_by_the_label_of_the_older_one() -> None:
    both = (release("r1", weight=75), release("r2", weight=25, base="r1"))
    expected = {"app.kubernetes.io/name": INSTANCE, "opsctl/joins-r1": "true"}
    assert front(*both) == expected
    assert front(*reversed(both)) == expected


def test_the_shared_label_is_on_the_pods_of_both_and_on_no_other() -> None:
    made = rendered(
        {
            "traffic": {"mode": "selector"},
            "releases": [
                release("r0", replicas=1),
                release("r1", weight=75, base="r0"),
                release("r2", weight=25, base="r1"),
                release("r1", role="baseline", replicas=1),
            ],
        }
    )
    joined = [
        name
        for (kind, name), one in made.items()
        if kind == "Deployment"
        and one["spec"]["template"]["metadata"]["labels"].get("opsctl/joins-r1") == "true"
    ]
    assert joined == ["anomaly-r1", "anomaly-r2"]


def test_with_nothing_to_serve_the_front_service_selects_no_pod() -> None:
    assert front(release("r1", weight=0)) == {
        "app.kubernetes.io/name": INSTANCE,
        "opsctl/release": "none",
    }


def test_by_route_the_front_service_stays_with_the_release_that_has_most() -> None:
    both = (release("r1", weight=40), release("r2", weight=60, base="r1"))
    assert front(*both, mode="route")["opsctl/release"] == "r2"


def test_a_releases_own_map_takes_the_place_of_the_whole() -> None:
    values = {
        **BASIC,
        "pod": {"env": {"A": "1"}, "drain": {"timeoutSeconds": 9}},
        "releases": [
            release("r1", weight=100, pod={"env": {"B": "2"}, "drain": {"preStopSeconds": 0}})
        ],
    }
    spec = rendered(values)["Deployment", "anomaly-r1"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    names = [variable["name"] for variable in container["env"]]
    assert names == ["OPSCTL_RELEASE", "OPSCTL_REPLICA", "MODEL_PATH", "B"]
    # No pre-stop sleep, and the drain time of all.
    assert "lifecycle" not in container
    assert spec["terminationGracePeriodSeconds"] == 9


def test_a_config_map_is_named_by_its_content() -> None:
    def name(content: str) -> str:
        made = rendered({**BASIC, "pod": {"files": {"a.json": content}}})
        return next(name for kind, name in made if kind == "ConfigMap")

    assert name("<1>") == name("<1>")
    assert name("<1>") != name("<2>")


REFUSED = [
    ([release("r1", weight=60)], {}, "the weights of the releases make 60, not 100"),
    ([release("r1", weight=100), release("r1")], {}, "release r1 stands twice"),
    ([release("r1", role="baseline", weight=100)], {}, "a baseline takes no traffic"),
    ([release("r1", weight=100, replicas=0)], {}, "100 % of the traffic and no replicas"),
    (
        [release("r1", weight=50), release("r2", weight=50)],
        {},
        "neither has the other as its base",
    ),
    (
        [release("r1", weight=40), release("r2", weight=30), release("r3", weight=30)],
        {},
        "between two releases, not more",
    ),
    (
        [release("r1", weight=100)],
        {"pod": {"npu": {"chip": "910b"}, "resources": {"limits": {"nvidia.com/gpu": "1"}}}},
        "nvidia.com/gpu beside an NPU",
    ),
    (
        [release("r1", weight=100)],
        {"pod": {"npu": {"chip": "910b"}, "env": {"ASCEND_VISIBLE_DEVICES": "0"}}},
        "would give all replicas the same cards",
    ),
    (
        [release("r1", weight=100)],
        {"pod": {"npu": {"chip": "310p", "vnpu": "2c", "volcano": {"enabled": True}}}},
        "static virtual NPUs",
    ),
    ([release("r1", weight=100)], {"pod": {"autoscaling": {"enabled": True}}}, "autoscaling needs"),
    (
        [release("r1", weight=100)],
        {"traffic": {"mode": "route", "mirror": {"release": "r9"}}},
        "traffic names release r9",
    ),
    (
        [release("r1", weight=100)],
        {"traffic": {"mode": "selector", "mirror": {"release": "r1"}}},
        "traffic.header and traffic.mirror need traffic.mode route",
    ),
]
"""Releases, other values, and what must be said."""


@pytest.mark.parametrize(("releases", "other", "told"), REFUSED)
def test_what_makes_no_sense_is_refused(
    releases: list[dict[str, Any]], other: dict[str, Any], told: str
) -> None:
    values = {"traffic": {"mode": "selector"}, **copy.deepcopy(other), "releases": releases}
    with pytest.raises(ConfigError) as raised:
        manifests.render(values, PLACE)
    assert told in str(raised.value)


def test_null_takes_a_default_away_as_in_helm() -> None:
    assert (
        "hosts" not in chart_values.coalesce({"pod": {"spread": {"hosts": None}}})["pod"]["spread"]
    )
