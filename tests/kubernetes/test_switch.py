"""What is changed ahead of Helm, and how long Helm may wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opsctl.model import DesiredState, Guard, Json, Share, Stamp
from opsctl.targets.kubernetes import switch
from opsctl.targets.kubernetes.ahead import RECORD_AFTER_S, Ahead
from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.desired import Order
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.names import GUARD, SWITCH, TAKEN, Names

NAMES = Names("light", "room")
BAD = DesiredState((Share("r1", 2, 0), Share("r2", 2, 100)))
BACK = DesiredState((Share("r1", 2, 100), Share("r2", 2, 0)))
SPELLED_BACK = '[["r1","serving",2,100],["r2","serving",2,0]]'
SPELLED_BAD = '[["r1","serving",2,0],["r2","serving",2,100]]'
SERVICE = "/api/v1/namespaces/room/services/light"
ROUTE = "/apis/gateway.networking.k8s.io/v1/namespaces/room/httproutes/light"


@dataclass
class Recorder:
    """An API that keeps what it is told, and refuses some of it."""

    found: dict[str, Json] = field(default_factory=dict)
    refuses: dict[str, type[Exception]] = field(default_factory=dict)
    patched: list[tuple[str, Json, str]] = field(default_factory=list)

    def get(self, path: str, **_: Any) -> Json:
        return self.found[path]

    def patch(self, path: str, body: Json, manager: str) -> Json:
        if path in self.refuses:
            raise self.refuses[path]("no")
        self.patched.append((path, body, manager))
        return {"patched": path}


def front(state: str = SPELLED_BAD, values: str = "ab12") -> Json:
    """The front Service while a revision that sends all traffic to r2 is in force."""
    notes = {"opsctl/state": state, "opsctl/values": values}
    selector = {
        "app.kubernetes.io/name": "light", "opsctl/release": "r2", "opsctl/role": "serving",
    }  # fmt: skip
    metadata = {"name": "light", "resourceVersion": "7", "annotations": notes}
    return {"metadata": metadata, "spec": {"selector": selector}}


def hand(api: Recorder, mode: str, manager: str = SWITCH) -> switch.Hand:
    return switch.Hand(cast(Api, api), NAMES, mode, lambda release: "", manager)


FRONT_BACK = {
    "metadata": {
        "annotations": {"opsctl/state": SPELLED_BACK, "opsctl/values": TAKEN},
        "resourceVersion": "7",
    },
    "spec": {
        "selector": {
            "app.kubernetes.io/name": "light", "opsctl/release": "r1", "opsctl/role": "serving",
        }
    },
}  # fmt: skip


def test_the_front_service_selects_the_other_release_in_one_change_of_what_was_seen() -> None:
    api = Recorder()
    assert switch.send(hand(api, "selector"), Live(front(), (), ()), BACK) == {
        "services": {"patched": SERVICE}
    }
    assert api.patched == [(SERVICE, FRONT_BACK, SWITCH)]


def test_labels_that_two_releases_shared_are_taken_out_of_the_selector() -> None:
    api = Recorder()
    shared = front()
    shared["spec"]["selector"] = {"app.kubernetes.io/name": "light", "opsctl/joins-r1": "true"}
    switch.send(hand(api, "selector"), Live(shared, (), ()), BACK)
    ((_, body, _),) = api.patched
    assert body["spec"]["selector"] == {
        "app.kubernetes.io/name": "light", "opsctl/joins-r1": None,
        "opsctl/release": "r1", "opsctl/role": "serving",
    }  # fmt: skip


def test_a_route_shares_as_wanted_and_forgets_who_asks_by_a_header() -> None:
    backs = [{"name": "light-r1", "weight": 0}, {"name": "light-r2", "weight": 100}]
    tried = {"matches": [{"headers": [{"name": "x", "value": "y"}]}], "backendRefs": backs[1:]}
    rule = {"matches": [{"path": {"value": "/"}}], "backendRefs": backs}
    route = {"metadata": {"resourceVersion": "9"}, "spec": {"rules": [tried, rule]}}
    api = Recorder(found={ROUTE: route})
    sent = switch.send(hand(api, "route"), Live(front(), (), ()), BACK)
    assert sent == {"httproutes": {"patched": ROUTE}, "services": {"patched": SERVICE}}
    assert [path for path, _, _ in api.patched] == [ROUTE, SERVICE]
    assert api.patched[0][1] == {
        "metadata": {"resourceVersion": "9"},
        "spec": {
            "rules": [
                {
                    "matches": [{"path": {"value": "/"}}],
                    "backendRefs": [
                        {"name": "light-r1", "weight": 100},
                        {"name": "light-r2", "weight": 0},
                    ],
                }
            ]
        },
    }


def test_a_release_that_is_left_gets_no_copies_of_requests_either() -> None:
    copies = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "light-r2"}}}
    other = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x"]}}
    backs = [{"name": "light-r1", "weight": 75}, {"name": "light-r2", "weight": 25}]
    rule = {"matches": [], "filters": [copies, other], "backendRefs": backs}
    route = {"metadata": {"resourceVersion": "9"}, "spec": {"rules": [rule]}}
    api = Recorder(found={ROUTE: route})
    switch.send(hand(api, "route"), Live(front(), (), ()), BACK)
    assert api.patched[0][1]["spec"]["rules"][0]["filters"] == [other]


@pytest.mark.parametrize(("manager", "tail"), [(SWITCH, ""), (GUARD, "/scale")])
def test_a_release_ends_by_the_right_that_who_ends_it_has(manager: str, tail: str) -> None:
    api = Recorder()
    switch.end(hand(api, "selector", manager), "r2")
    path = f"/apis/apps/v1/namespaces/room/deployments/light-r2{tail}"
    assert api.patched == [(path, {"spec": {"replicas": 0}}, manager)]


@dataclass
class Kept:
    """A mirror that is told what was written."""

    objects: list[Json] = field(default_factory=list)

    def put(self, written: Json) -> None:
        self.objects.append(written)


class Place:
    """As much of the target as is needed."""

    def __init__(self, api: Recorder) -> None:
        self.api, self.names, self.mode = api, NAMES, "selector"
        self.known_releases = {
            name: {"launch": {"container": {"base": ""}}} for name in ("r1", "r2")
        }
        self.front, self.refreshed = Kept(), 0
        self.view = SimpleNamespace(mirrors={"services": self.front}, refresh=self.refresh)

    def refresh(self) -> None:
        self.refreshed += 1


def ahead(place: Place) -> Ahead:
    return Ahead(cast(Any, place))


def order(**guard: Any) -> Order:
    return Order(BACK, Stamp(3, 4), Guard(BACK, **guard))


def test_a_way_back_is_in_force_before_helm_and_helm_may_wait_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    place = Place(Recorder())
    made, interim = ahead(place), order(interim=True)
    assert made.switch(interim, Live(front(), (), ()), BACK)
    assert place.api.patched == [(SERVICE, FRONT_BACK, SWITCH)]
    assert place.front.objects == [{"patched": SERVICE}]
    switched = Live(front(SPELLED_BACK, TAKEN), (), ())
    assert made.is_enough(interim, switched, BACK)
    now += RECORD_AFTER_S
    assert not made.is_enough(interim, switched, BACK)


def test_helm_does_not_wait_when_the_command_ends_or_more_has_to_change() -> None:
    made = ahead(Place(Recorder()))
    assert made.switch(order(unattended=True), Live(front(), (), ()), BACK)
    switched = Live(front(SPELLED_BACK, TAKEN), (), ())
    assert not made.is_enough(order(unattended=True), switched, BACK)
    alone = DesiredState((Share("r1", 2, 100),))
    assert not made.is_enough(order(interim=True), switched, alone)
    recorded = Live(front(SPELLED_BACK, "cd34"), (), ())
    assert not made.is_enough(order(interim=True), recorded, BACK)


def test_nothing_is_moved_ahead_on_the_way_to_a_candidate() -> None:
    place = Place(Recorder())
    assert not ahead(place).switch(order(), Live(front(), (), ()), BACK)
    assert place.api.patched == []


def test_who_was_slower_than_another_looks_again() -> None:
    place = Place(Recorder(refuses={SERVICE: Conflict}))
    assert not ahead(place).switch(order(interim=True), Live(front(), (), ()), BACK)
    assert place.refreshed == 1


def test_what_is_left_ends_at_once_and_one_that_is_gone_already_is_no_fault() -> None:
    place = Place(Recorder())
    switched = Live(front(SPELLED_BACK, TAKEN), (), ())
    ahead(place).end(switched, DesiredState((Share("r1", 2, 100),)))
    path = "/apis/apps/v1/namespaces/room/deployments/light-r2"
    assert place.api.patched == [(path, {"spec": {"replicas": 0}}, SWITCH)]
    gone = Place(Recorder(refuses={path: Missing}))
    ahead(gone).end(switched, DesiredState((Share("r1", 2, 100),)))
    assert gone.api.patched == []
