"""Slots of HAProxy: which is given to whom, and by which commands; pure."""

from __future__ import annotations

import json

from opsctl.targets.supervisor import haproxy_config, slot_changes
from opsctl.targets.supervisor.haproxy_config import FREE_SLOT, Server
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.runtime_api import SlotRow, Statistics
from opsctl.targets.supervisor.slots import Slots, enough_for


def row(slot: str, replica: str, **more: object) -> SlotRow:
    """A slot at 127.0.0.1:21 with its health on port 22, without traffic."""
    values = {"path": "/h", "host": "127.0.0.1", "port": 21, "weight": 0, "maint": False, **more}
    return SlotRow(
        slot, replica, str(values["path"]), str(values["host"]), int(str(values["port"])), 22,
        int(str(values["weight"])), bool(values["maint"]),
    )  # fmt: skip


def server(name: str, **more: int) -> Server:
    weight, maint = more.get("weight", 0), bool(more.get("maint", 0))
    return Server(name, more.get("port", 21), 22, "/h", weight=weight, maint=maint)


def test_a_slot_rests_as_long_as_it_can_between_two_replicas() -> None:
    slots = Slots(3)
    assert slots.take(["r1-1", "r1-2"], ())
    assert slots.held == {"r1-1": "s1", "r1-2": "s2"}
    slots.give_back("r1-1")
    assert slots.take(["r1-2", "r2-1"], ())
    assert slots.held == {"r1-2": "s2", "r2-1": "s3"}
    assert slots.take(["r2-2"], ())
    assert slots.held["r2-2"] == "s1"


def test_a_slot_with_requests_of_an_earlier_replica_is_passed_over() -> None:
    slots = Slots(3)
    assert slots.take(["r1-1"], {"s1"})
    assert slots.held == {"r1-1": "s2"}
    assert not slots.take(["r1-2", "r1-3"], {"s1"})
    assert slots.held == {"r1-1": "s2"}  # all or none


def test_more_slots_are_added_behind_those_that_are_there() -> None:
    slots = Slots(2)
    slots.take(["r1-1", "r1-2"], ())
    slots.grow(4)
    assert slots.names == ["s1", "s2", "s3", "s4"]
    assert slots.take(["r1-3"], ())
    assert slots.held["r1-3"] == "s3"
    slots.grow(1)
    assert len(slots.names) == 4


def test_the_slots_of_a_running_balancer_are_taken_over() -> None:
    slots = Slots()
    slots.adopt({"r1-1": "s2"}, 3)
    slots.take(["r1-1", "r2-1", "r2-2"], ())
    assert slots.held == {"r1-1": "s2", "r2-1": "s1", "r2-2": "s3"}


def test_a_file_has_room_for_four_releases() -> None:
    assert (enough_for(0), enough_for(8), enough_for(9), enough_for(64)) == (32, 32, 36, 256)


def test_gains_come_before_losses() -> None:
    have = {"s1": row("s1", "r1-1", weight=1), "s2": row("s2", "r2-1", maint=True)}
    want = {"s1": server("r1-1", maint=1), "s2": server("r2-1", weight=1)}
    assert slot_changes.commands(have, want) == [
        "set server svc/s2 state ready",
        "set server svc/s2 weight 1",
        "set server svc/s1 weight 0",
        "set server svc/s1 state maint",
    ]


def test_a_slot_gets_its_new_name_before_its_new_address_and_traffic_last() -> None:
    have = {"s1": row("s1", "r1-1", weight=3)}
    want = {"s1": server("r2-1", port=31, weight=7)}
    assert slot_changes.unbound(have, want) == ["s1"]
    assert slot_changes.commands(have, want) == [
        "set server svc/s1 weight 0",
        "set server svc/s1 state maint",
        "set map slots.map s1 r2-1:/h",
        "set server svc/s1 addr 127.0.0.1 port 31",
        "set server svc/s1 check-port 22",
        "set server svc/s1 state ready",
        "set server svc/s1 weight 7",
    ]


def test_a_replica_at_another_address_is_another_binding() -> None:
    have = {"s1": row("s1", "r1-1", host="172.17.0.2")}
    assert slot_changes.unbound(have, {"s1": server("r1-1")}) == ["s1"]
    assert slot_changes.unbound({"s1": row("s1", "r1-1")}, {"s1": server("r1-1")}) == []


def test_a_slot_that_nobody_wants_loses_its_traffic_and_a_resting_one_is_left_alone() -> None:
    have = {"s1": row("s1", "r1-1", weight=1), "s2": row("s2", "-", maint=True)}
    assert slot_changes.commands(have, {}) == [
        "set server svc/s1 weight 0",
        "set server svc/s1 state maint",
    ]


def test_another_health_path_alone_interrupts_nothing() -> None:
    have = {"s1": row("s1", "r1-1", weight=1, path="/old")}
    want = {"s1": server("r1-1", weight=1)}
    assert slot_changes.commands(have, want) == ["set map slots.map s1 r1-1:/h"]


def test_what_means_something_to_the_runtime_api_is_escaped() -> None:
    odd = Server("r1-1", 21, 22, "/a;b c\\d")
    assert "set map slots.map s1 r1-1:/a\\;b\\ c\\\\d" in slot_changes.bind("s1", odd)


def test_slots_with_requests_are_busy() -> None:
    rows = [
        {"pxname": "svc", "svname": "s1", "scur": "0", "qcur": "0"},
        {"pxname": "svc", "svname": "s2", "scur": "1", "qcur": "0"},
        {"pxname": "svc", "svname": "s3", "scur": "0", "qcur": "2"},
        {"pxname": "front", "svname": "FRONTEND", "scur": "9", "qcur": ""},
    ]
    assert Statistics(1, "0", rows, {}).busy == {"s2", "s3"}


def test_the_file_has_each_slot_and_keeps_the_note() -> None:
    slots = {"s1": server("r1-1", weight=3), "s2": FREE_SLOT}
    settings = RunSettings("svc", "test")
    text = haproxy_config.render(settings, 8501, slots, {"stamp": 1})
    assert [line.strip() for line in text.splitlines() if line.startswith("    server ")] == [
        "server s1 127.0.0.1:21 check port 22 weight 3 # r1-1",
        "server s2 127.0.0.1:1 check port 1 weight 0 disabled # -",
    ]
    assert f"# state {json.dumps({'stamp': 1})}" in text.splitlines()
    assert haproxy_config.render_map(slots) == "s1 r1-1:/h\ns2 -:\n"
    other = haproxy_config.render(settings, 8501, {}, {})
    assert [t for t in text.splitlines() if t.startswith("# frame")] == [
        t for t in other.splitlines() if t.startswith("# frame")
    ]
