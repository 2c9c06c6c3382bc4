"""Objects of the chart and of the plain manifests, in a form that can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*.yaml"))
"""The supported combinations; each has its values in helm/ci/."""

NAMESPACE = "ai-serving"
INSTANCE = "anomaly"


def values_path(case: str) -> Path:
    """The values of a combination."""
    return CHART / "ci" / f"{case}-values.yaml"


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a text, in an order that tells nothing; Helm's hooks are left out."""
    made = [one for one in yaml.safe_load_all(text) if one]
    kept = [one for one in made if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    return sorted(kept, key=lambda one: (one["kind"], one["metadata"]["name"]))


def dump(made: Iterable[dict[str, Any]]) -> str:
    """Objects as golden files hold them."""
    return yaml.safe_dump_all(made, sort_keys=True, width=100)


def golden(case: str) -> list[dict[str, Any]]:
    """What a combination must give."""
    return objects((GOLDEN / f"{case}.yaml").read_text())


def plain(made: object) -> object:
    """Without the difference between 1 and 1.0, which YAML readers make."""
    return json.loads(json.dumps(made))
