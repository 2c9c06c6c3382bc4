"""Fields that are opsctl's alone, given back to Helm where somebody else has changed them.

Helm 4 applies on the server's side, where a field that another manager owns is a conflict. To
force it would undo all that people have changed, without a word. But where traffic goes is for the
rollout to say, and what the guard did is for the next command to go on from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from opsctl.model import Json
from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.live import owners as owners_of
from opsctl.targets.kubernetes.names import GUARD, SWITCH, Names

TRIES = 10
HELM = "helm"
OURS = (GUARD, SWITCH)
"""Managers of what opsctl changes itself, which Helm writes down afterwards."""

TRAFFIC: Mapping[str, tuple[str, str]] = {
    "services": ("f:spec", "f:selector"),
    "httproutes": ("f:spec", "f:rules"),
}
"""By kind: the field that says where traffic goes, as `managedFields` spells it."""


def take_back(api: Api, names: Names, live: Live) -> None:
    """Have nobody but Helm own what is opsctl's alone. No value changes.

    Raises TargetUnreachable.
    """
    for kind, found in live.objects():
        if disowned(kind, owners_of(found)) == owners_of(found):
            continue
        path = names.path(kind, found["metadata"]["name"])
        for _ in range(TRIES):
            if _taken(api, kind, path):
                break


def _taken(api: Api, kind: str, path: str) -> bool:
    """One try; False when somebody else wrote meanwhile."""
    try:
        found = api.get(path)
        left = disowned(kind, owners_of(found))
        version = found["metadata"]["resourceVersion"]
        api.patch(path, {"metadata": {"resourceVersion": version, "managedFields": left}})
    except Conflict:
        return False
    except Missing:
        return True
    return True


def disowned(kind: str, entries: list[Json]) -> list[Json]:
    """The entries of `managedFields` without opsctl's own; traffic is nobody's but Helm's."""
    left = []
    for entry in entries:
        if entry["manager"] in OURS:
            continue
        if entry["manager"] != HELM and kind in TRAFFIC:
            entry = _without(entry, TRAFFIC[kind])
        left.append(entry)
    return left


def _without(entry: Json, path: tuple[str, str]) -> Json:
    outer, inner = path
    if inner not in entry.get("fieldsV1", {}).get(outer, {}):
        return entry
    changed = copy.deepcopy(entry)
    del changed["fieldsV1"][outer][inner]
    return changed
