"""The chart's values as Helm sees them: defaults, a user's values over them, a release's own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from opsctl.errors import ConfigError
from opsctl.model import Json
from opsctl.resources import chart_path

FREE_MAPS = frozenset(
    {
        "affinity", "annotations", "env", "files", "labels", "nodeLabels", "nodeSelector",
        "resources", "secretEnv", "writable",
    }
)  # fmt: skip
"""Maps whose keys people choose: a release's own takes the place of the whole."""


@cache
def _defaults_text() -> str:
    return (chart_path() / "values.yaml").read_text()


def defaults() -> Json:
    """The chart's values.yaml."""
    values: Json = yaml.safe_load(_defaults_text())
    return values


def coalesce(values: Mapping[str, Any]) -> Json:
    """What templates see for a user's values: maps merge, null takes a default away."""
    return _coalesced(defaults(), values)


def _coalesced(base: Json, over: Mapping[str, Any]) -> Json:
    merged = copy.deepcopy(base)
    for name, value in over.items():
        if value is None and name in merged:
            del merged[name]
        elif isinstance(value, Mapping) and isinstance(merged.get(name), dict):
            merged[name] = _coalesced(merged[name], value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged


def pod_settings(values: Mapping[str, Any], release: Mapping[str, Any]) -> Json:
    """What a release's pods are like: its own settings over those of all releases."""
    return _over(values["pod"], release.get("pod") or {})


def _over(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    merged = copy.deepcopy(dict(base))
    for name, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), dict)
        if both and name not in FREE_MAPS:
            merged[name] = _over(merged[name], value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged


def check(values: Mapping[str, Any], mode: str) -> None:
    """Refuse what the chart refuses. Raises ConfigError."""
    seen: set[tuple[str, str]] = set()
    for release in values["releases"]:
        role = release.get("role") or "serving"
        if (release["name"], role) in seen:
            raise refused(f"release {release['name']} stands twice in releases (role {role})")
        seen.add((release["name"], role))
        _check_release(release, pod_settings(values, release), mode)
    total = sum(release.get("weight") or 0 for release in values["releases"])
    if total not in (0, 100):
        raise refused(f"the weights of the releases make {total}, not 100")
    _check_traffic(values["traffic"], {name for name, role in seen if role == "serving"}, mode)


def _check_release(release: Mapping[str, Any], pod: Mapping[str, Any], mode: str) -> None:
    name, weight, npu = release["name"], release.get("weight") or 0, pod["npu"]
    asked = {**pod["resources"].get("requests", {}), **pod["resources"].get("limits", {})}
    if release.get("role") == "baseline" and weight:
        raise refused(f"release {name}: a baseline takes no traffic")
    if weight and release.get("replicas") == 0:
        raise refused(f"release {name} has {weight} % of the traffic and no replicas")
    if npu["chip"] and "nvidia.com/gpu" in asked:
        raise refused(f"release {name} asks for nvidia.com/gpu beside an NPU")
    if npu["chip"] and "ASCEND_VISIBLE_DEVICES" in pod["env"]:
        raise refused(
            f"release {name} sets ASCEND_VISIBLE_DEVICES: a constant would give all replicas"
            " the same cards; the device plugin sets it"
        )
    if npu["vnpu"] and npu["volcano"]["enabled"]:
        raise refused(
            f"release {name}: static virtual NPUs are given out by the device plugin, not Volcano"
        )
    if pod["autoscaling"]["enabled"] and mode == "selector":
        raise refused(
            "autoscaling needs traffic.mode route: with a shared Service the number of replicas is"
            " the share of traffic"
        )


def _check_traffic(traffic: Mapping[str, Any], serving: set[str], mode: str) -> None:
    named = [name for part in ("header", "mirror") if (name := traffic[part]["release"])]
    for name in named:
        if name not in serving:
            raise refused(f"traffic names release {name}, which is not in releases")
    if named and mode == "selector":
        raise refused("traffic.header and traffic.mirror need traffic.mode route")


def refused(why: str) -> ConfigError:
    """The error for values that make no sense."""
    return ConfigError("these values can't be rendered", why=why, next_step="Change the values.")
