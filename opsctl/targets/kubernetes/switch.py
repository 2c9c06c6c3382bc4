"""Changes ahead of Helm: where traffic goes, and a release that must end at once.

A Helm upgrade takes a third of a second, and some seconds on a machine that is busy. Users who are
to leave a bad release don't wait for that: what stands in the way of their requests is changed at
once, and the next revision of Helm has the same in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsctl.model import DesiredState, Json
from opsctl.render.manifests import front_selector
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.desired import spelled
from opsctl.targets.kubernetes.live import Live, by_header
from opsctl.targets.kubernetes.names import GUARD, IN_FORCE, TAKEN, VALUES, Names

MIRROR = "RequestMirror"
"""Type of the filter of an HTTPRoute that sends copies of requests elsewhere."""


@dataclass(frozen=True)
class Hand:
    """Who changes what of which service."""

    api: Api
    names: Names
    mode: str
    """How traffic is shared: `route` or `selector`."""
    base_of: Callable[[str], str]
    """The release that another was made to follow; empty without one."""
    manager: str


def send(hand: Hand, live: Live, wanted: DesiredState) -> dict[str, Json]:
    """Send the traffic where `wanted`, whose releases all run, says; what was changed, by kind.

    Raises Conflict when somebody changed the front Service since `live` was seen.
    """
    sent = {}
    if hand.mode == "route":
        sent["httproutes"] = _send_by_route(hand, wanted)
    rows = [
        {"name": s.release, "weight": s.weight, "base": hand.base_of(s.release)}
        for s in wanted.shares
        if s.weight
    ]
    selector = front_selector(hand.names.service, rows, hand.mode)
    old = (live.front or {"spec": {}})["spec"].get("selector") or {}
    metadata: Json = {"annotations": {IN_FORCE: spelled(wanted), VALUES: TAKEN}}
    if live.front is not None:  # as it was seen; otherwise the next look decides anew
        metadata |= version(live.front)
    # In a merge patch null takes a key away.
    body = {"metadata": metadata, "spec": {"selector": {**dict.fromkeys(old), **selector}}}
    path = hand.names.path("services", hand.names.service)
    sent["services"] = hand.api.patch(path, body, hand.manager)
    return sent


def _send_by_route(hand: Hand, wanted: DesiredState) -> Json:
    """Weights of the HTTPRoute; who asks for a release by a header gets it no more, and nobody
    gets copies of requests."""
    path = hand.names.path("httproutes", hand.names.service)
    weights = {
        hand.names.workload(share.release): share.weight
        for share in wanted.shares
        if share.role == "serving"
    }
    route = hand.api.get(path)
    rules = [rule for rule in route["spec"]["rules"] if not by_header(rule)]
    for rule in rules:
        rule |= _without_copies(rule)
    for back in (back for rule in rules for back in rule["backendRefs"]):
        back["weight"] = weights.get(back["name"], back["weight"])
    body = {"metadata": version(route), "spec": {"rules": rules}}
    return hand.api.patch(path, body, hand.manager)


def _without_copies(rule: Json) -> Json:
    """The filters of a rule, where it has any."""
    if "filters" not in rule:
        return {}
    return {"filters": [one for one in rule["filters"] if one["type"] != MIRROR]}


def end(hand: Hand, release: str, role: str = "serving") -> None:
    """Have a release run no replica any more. Raises Missing when it has no Deployment."""
    # The guard may do nothing else to a Deployment; a command needs no right beyond Helm's.
    way = "scale" if hand.manager == GUARD else ""
    path = hand.names.path("deployments", hand.names.workload(release, role), way)
    hand.api.patch(path, {"spec": {"replicas": 0}}, hand.manager)


def version(found: Json) -> Json:
    """What makes a change one of exactly this version."""
    return {"resourceVersion": found["metadata"]["resourceVersion"]}
