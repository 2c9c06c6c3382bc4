"""The chart in both Helms: golden renders, strict lint, a schema that refuses what is wrong."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
import yaml

from tests.cluster.kubernetes import HELMS, Cluster, Refused
from tests.helm.rendering import (
    CASES,
    CHART,
    GOLDEN,
    INSTANCE,
    NAMESPACE,
    dump,
    objects,
    values_path,
)
from tests.helm.test_manifests import REFUSED, release

pytestmark = [pytest.mark.cluster]
VERSION = "--kube-version=1.34.4"
"""Without a cluster, Helm 3 that was built from its module takes an old version to be there."""

FULL = {"releases": [release("r1", weight=100)]}


def template(cluster: Cluster, major: str, case: str) -> str:
    return cluster.helm(
        major, "template", INSTANCE, str(CHART), "--namespace", NAMESPACE, VERSION,
        "--values", str(values_path(case)),
    )  # fmt: skip


@pytest.mark.parametrize("major", HELMS)
@pytest.mark.parametrize("case", CASES)
def test_the_chart_gives_the_golden_objects(cluster: Cluster, case: str, major: str) -> None:
    made = dump(objects(template(cluster, major, case)))
    path = GOLDEN / f"{case}.yaml"
    if os.environ.get("OPSCTL_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == path.read_text()


@pytest.mark.parametrize("major", HELMS)
@pytest.mark.parametrize("case", CASES)
def test_the_strict_lint_has_nothing_to_say(cluster: Cluster, case: str, major: str) -> None:
    told = cluster.helm(
        major, "lint", "--strict", VERSION, str(CHART), "--values", str(values_path(case))
    )
    assert "1 chart(s) linted, 0 chart(s) failed" in told
    assert "[WARNING]" not in told


@pytest.mark.parametrize("major", HELMS)
@pytest.mark.parametrize(("releases", "other", "told"), REFUSED)
def test_the_chart_refuses_what_the_manifests_refuse(
    cluster: Cluster, major: str, releases: list[Any], other: dict[str, Any], told: str
) -> None:
    values = {"traffic": {"mode": "selector"}, **copy.deepcopy(other), "releases": releases}
    with pytest.raises(Refused) as raised:
        cluster.helm(major, "template", INSTANCE, str(CHART), VERSION, values=values)
    assert told in str(raised.value)


def test_the_schema_knows_every_value_and_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert unknown(schema, schema, values, "") == []
    assert unset(schema, schema, values, "") == []


def resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    name = part.get("$ref", "").removeprefix("#/definitions/")
    return schema["definitions"][name] if name else part


def unknown(schema: Any, part: Any, values: Any, path: str) -> list[str]:
    """Values that the schema does not describe."""
    part = resolved(schema, part)
    if not isinstance(values, dict) or "properties" not in part:
        return []
    named = part["properties"]
    return [
        *(f"{path}.{key}" for key in values if key not in named),
        *(
            line
            for key in values
            if key in named
            for line in unknown(schema, named[key], values[key], f"{path}.{key}")
        ),
    ]


OPTIONAL = {".global", ".releases"}
PROBES = ("initialDelaySeconds", "successThreshold")


def unset(schema: Any, part: Any, values: Any, path: str) -> list[str]:
    """Described keys without a default in values.yaml, where each is shown with its meaning."""
    part = resolved(schema, part)
    if path in OPTIONAL or "properties" not in part:
        return []
    missing = [key for key in part["properties"] if key not in values and key not in PROBES]
    return [
        *(f"{path}.{key}" for key in missing if f"{path}.{key}" not in OPTIONAL),
        *(
            line
            for key in part["properties"]
            if key in values
            for line in unset(schema, part["properties"][key], values[key], f"{path}.{key}")
        ),
    ]


WRONG: list[dict[str, Any]] = [
    {"replicas": 3},
    {"pod": {"npu": {"chip": "910x"}}},
    {"pod": {"npu": {"count": 0}}},
    {"pod": {"npu": {"vnpu": "four"}}},
    {"pod": {"npu": {"resource": "Ascend910"}}},
    {"pod": {"resources": {"requests": {"cpu": 2}}}},
    {"pod": {"resources": {"limits": {"memory": "4 GB"}}}},
    {"pod": {"env": {"OPSCTL_RELEASE": "r9"}}},
    {"pod": {"env": {"N": 1}}},
    {"pod": {"security": {"runAsUser": 0}}},
    {"pod": {"model": {"mountPath": "models"}}},
    {"pod": {"probes": {"readyPath": "ready"}}},
    {"pod": {"drain": {"preStopSeconds": -1}}},
    {"pod": {"ports": {"http": 70000}}},
    {"pod": {"spread": {"hosts": "always"}}},
    {"pod": {"writable": {"tmp": "1Mi"}}},
    {"traffic": {"mode": "mesh"}},
    {"traffic": {"header": {"release": "r1"}}},
    {"traffic": {"hostnames": ["UPPER"]}},
    {"front": {"type": "ExternalName"}},
    {"disruption": {"maxUnavailable": 0}},
    {"state": {"epoch": -1}},
    {"state": {"digest": "xyz"}},
    {"service": "9lives"},
    {"releases": [{"name": "r1"}]},
    {"releases": [{"name": "R1", "image": "a"}]},
    {"releases": [{"name": "r1", "image": "a", "weight": 101}]},
    {"releases": [{"name": "r1", "image": "a", "role": "shadow"}]},
    {"releases": [{"name": "r1", "image": "a", "pod": {"chip": "910"}}]},
    {"monitoring": {"interval": "often"}},
    {"networkPolicy": {"egress": "none"}},
    {"test": {"command": []}},
]


def refusal(cluster: Cluster, major: str, values: dict[str, Any]) -> str:
    """What Helm says against values; empty when it takes them."""
    try:
        cluster.helm(major, "template", INSTANCE, str(CHART), VERSION, values=values)
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize("major", HELMS)
def test_every_wrong_value_is_refused_by_the_schema(cluster: Cluster, major: str) -> None:
    told = [refusal(cluster, major, {**FULL, **values}) for values in WRONG]
    by_schema = ["don't meet the specifications of the schema" in one for one in told]
    assert [values for values, ok in zip(WRONG, by_schema, strict=True) if not ok] == []
