"""The supervisor's pure parts: weights, back-off, counters, traffic plans, guard rules."""

from __future__ import annotations

import socket
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState, Guard, LiveLimits, Replica, Share
from opsctl.targets.supervisor import guarding
from opsctl.targets.supervisor.admission import front_port
from opsctl.targets.supervisor.backoff import CrashHistory
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.runtime_api import Statistics
from opsctl.targets.supervisor.traffic import Counts, TrafficLedger
from opsctl.targets.supervisor.traffic_plan import Member, next_percents, placed
from opsctl.targets.supervisor.weights import server_weights


@st.composite
def splits(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int]]:
    """Two or three releases with shares that sum to 100, and their replica counts."""
    count = draw(st.integers(2, 3))
    cuts = sorted(draw(st.lists(st.integers(1, 99), min_size=count - 1, max_size=count - 1,
                                unique=True)))  # fmt: skip
    edges = [0, *cuts, 100]
    percents = {f"r{i}": edges[i + 1] - edges[i] for i in range(count)}
    return percents, {name: draw(st.integers(1, 64)) for name in percents}


@given(splits())
def test_shares_are_exact(
    split: tuple[dict[str, int], dict[str, int]],
) -> None:
    percents, replicas = split
    weights = server_weights(percents, replicas)
    total = sum(sum(values) for values in weights.values())
    for name, percent in percents.items():
        assert len(weights[name]) == replicas[name]
        assert all(0 <= weight <= 256 for weight in weights[name])
        assert Fraction(100 * sum(weights[name]), total) == percent


@pytest.mark.parametrize(
    ("percents", "replicas", "expected"),
    [
        ({"r1": 100}, {"r1": 3}, {"r1": [1, 1, 1]}),
        ({"r1": 75, "r2": 25}, {"r1": 1, "r2": 1}, {"r1": [3], "r2": [1]}),
        ({"r1": 95, "r2": 5}, {"r1": 3, "r2": 1}, {"r1": [19, 19, 19], "r2": [3]}),
        ({"r1": 50, "r2": 50}, {"r1": 4, "r2": 2}, {"r1": [1] * 4, "r2": [2, 2]}),
        ({"r1": 100, "r2": 0}, {"r1": 2, "r2": 2}, {"r1": [1, 1]}),
        ({}, {}, {}),
    ],
)
def test_weights_are_the_smallest_that_fit(
    percents: dict[str, int], replicas: dict[str, int], expected: dict[str, list[int]]
) -> None:
    assert server_weights(percents, replicas) == expected


def test_pauses_double_up_to_ten_seconds() -> None:
    history = CrashHistory()
    pauses = [history.record(now=i * 100.0, healthy_s=0, max_restarts=99) for i in range(9)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_minute_of_health_forgives_crashes() -> None:
    history = CrashHistory()
    assert [history.record(0, 0, 3), history.record(1, 0, 3)] == [0.1, 0.2]
    assert history.record(62, 60.0, 3) == 0.1


def test_crashes_spread_over_more_than_a_minute_are_no_loop() -> None:
    history = CrashHistory()
    for now in (0.0, 31.0, 62.0, 93.0):
        history.record(now, 0, 3)
        assert not history.looping(now, 3)
    history.record(94.0, 0, 3)
    assert history.looping(94.0, 3)


def row(slot: str, ok: int, **more: int) -> dict[str, str]:
    numbers = {"hrsp_2xx": ok, "hrsp_5xx": 0, "eresp": 0, "econ": 0, "wretr": 0, "scur": 0, **more}
    return {"pxname": "svc", "svname": slot, **{k: str(v) for k, v in numbers.items()}}


def counted(pid: int, rows: list[dict[str, str]], *replicas: str) -> Statistics:
    """Counters of a HAProxy whose slots s1, s2, … belong to `replicas`."""
    return Statistics(
        pid, "1700000000", rows, {f"s{n}": name for n, name in enumerate(replicas, 1)}
    )


def test_counters_add_up_over_restarts_of_the_balancer() -> None:
    ledger = TrafficLedger()
    ledger.absorb(counted(7, [row("s1", 10), row("s2", 5)], "r1-1", "r1-2"))
    ledger.absorb(counted(7, [row("s1", 12), row("s2", 9, hrsp_5xx=1)], "r1-1", "r1-2"))
    assert ledger.of("r1") == Counts(22, 1, 0)
    ledger.absorb(counted(8, [row("s1", 4)], "r1-1"))  # another HAProxy counts from 0
    assert ledger.of("r1") == Counts(26, 1, 0)
    assert TrafficLedger.from_dict(ledger.to_dict()).of("r1") == Counts(26, 1, 0)


def test_counters_of_two_balancers_that_are_read_in_turn_are_counted_once() -> None:
    ledger = TrafficLedger()
    for pid, requests in ((7, 100), (8, 3), (7, 102), (8, 5), (8, 9)):
        ledger.absorb(counted(pid, [row("s1", requests)], "r1-1"))
    assert ledger.of("r1") == Counts(102 + 9)


def test_answers_of_one_balancer_that_come_in_another_order_are_counted_once() -> None:
    ledger = TrafficLedger()
    for requests, errors in ((100, 1), (120, 3), (118, 2), (120, 3), (125, 3)):
        ledger.absorb(counted(7, [row("s1", requests, hrsp_5xx=errors)], "r1-1"))
    assert ledger.of("r1") == Counts(125 + 3, 3)


def test_a_balancer_with_the_pid_of_the_one_before_counts_from_0() -> None:
    ledger = TrafficLedger()
    for started, requests in (("1700000000", 10), ("1700000009", 4)):
        ledger.absorb(Statistics(7, started, [row("s1", requests)], {"s1": "r1-1"}))
    assert ledger.of("r1") == Counts(14)


def test_what_an_older_opsctl_counted_of_the_running_balancer_is_not_counted_again() -> None:
    ledger = TrafficLedger("7", {"r1": Counts(10)}, {"svc/s1": Counts(10)})
    ledger.absorb(counted(7, [row("s1", 12)], "r1-1"))
    assert ledger.of("r1") == Counts(12)


def test_what_a_slot_counts_belongs_to_the_replica_that_has_it() -> None:
    ledger = TrafficLedger()
    ledger.absorb(counted(7, [row("s1", 10), row("s2", 5)], "r1-1", "r2-1"))
    ledger.absorb(counted(7, [row("s1", 17), row("s2", 5)], "r1-1", "r2-1"))
    ledger.absorb(counted(7, [row("s1", 17), row("s2", 6)], "-", "r2-1"))
    ledger.absorb(counted(7, [row("s1", 20, hrsp_5xx=2), row("s2", 6)], "r3-1", "r2-1"))
    assert {release: ledger.of(release) for release in ("r1", "r2", "r3")} == {
        "r1": Counts(17, 0, 0),
        "r2": Counts(6, 0, 0),
        "r3": Counts(5, 2, 0),
    }
    assert [traffic.release for traffic in ledger.traffic()] == ["r1", "r2", "r3"]


def test_servers_of_an_older_opsctl_are_counted_by_their_own_names() -> None:
    ledger = TrafficLedger()
    ledger.absorb(Statistics(7, "1700000000", [row("r1-1", 10), row("r2-1", 5)], {}))
    assert (ledger.of("r1"), ledger.of("r2")) == (Counts(10), Counts(5))


def test_requests_without_an_answer_are_errors() -> None:
    ledger = TrafficLedger()
    rows = [row("s1", 10, hrsp_5xx=2, eresp=3, econ=1, wretr=4, scur=5)]
    ledger.absorb(counted(7, rows, "r1-1"))
    assert ledger.of("r1") == Counts(16, 6, 4)
    assert ledger.traffic()[0].in_flight == 5


def member(name: str, ready: bool = True, wanted: bool = True) -> Member:
    return Member(Server(name, 1, 2, "/h"), ready, wanted)


OLD_NEW = DesiredState((Share("r1", 2, 0), Share("r2", 2, 100)))


def test_traffic_waits_until_all_replicas_of_the_new_release_are_ready() -> None:
    half = [member("r1-1"), member("r2-1"), member("r2-2", ready=False)]
    assert next_percents(OLD_NEW, {"r1": 100}, half, []) == {"r1": 100}
    whole = [member("r1-1"), member("r2-1"), member("r2-2")]
    assert next_percents(OLD_NEW, {"r1": 100}, whole, []) == {"r2": 100}


def test_a_release_that_was_complete_takes_traffic_with_one_ready_replica() -> None:
    half = [member("r1-1"), member("r2-1"), member("r2-2", ready=False)]
    assert next_percents(OLD_NEW, {"r1": 100}, half, ["r2"]) == {"r2": 100}
    none = [member("r1-1"), member("r2-1", ready=False), member("r2-2", ready=False)]
    assert next_percents(OLD_NEW, {"r1": 100}, none, ["r2"]) == {"r1": 100}


def test_taking_all_traffic_away_waits_for_nobody() -> None:
    assert next_percents(DesiredState(), {"r1": 100}, [], []) == {}


def test_a_release_that_lost_its_traffic_goes_to_maintenance() -> None:
    present = {"r1-1": Server("r1-1", 1, 2, "/h", weight=1)}
    servers = placed({"r2": 100}, [member("r1-1"), member("r2-1")], present)
    assert (servers["r1-1"].weight, servers["r1-1"].maint) == (0, True)
    assert (servers["r2-1"].weight, servers["r2-1"].maint) == (1, False)
    assert placed({"r1": 100}, [member("r1-1"), member("r2-1")], servers)["r1-1"].maint is False


def test_a_newcomer_without_traffic_is_checked_and_not_in_maintenance() -> None:
    servers = placed({"r1": 100}, [member("r1-1"), member("r2-1")], {})
    assert (servers["r2-1"].weight, servers["r2-1"].maint) == (0, False)


def test_the_ready_replicas_carry_the_whole_share() -> None:
    members = [member("r1-1"), member("r1-2", ready=False), member("r2-1")]
    servers = placed({"r1": 50, "r2": 50}, members, {})
    assert {name: s.weight for name, s in servers.items()} == {"r1-1": 1, "r1-2": 0, "r2-1": 1}


def test_when_no_replica_is_ready_all_keep_their_part() -> None:
    members = [member("r1-1", ready=False), member("r1-2", ready=False)]
    servers = placed({"r1": 100}, members, {})
    assert [s.weight for s in servers.values()] == [1, 1]


def test_replicas_beyond_the_wanted_number_lose_their_traffic() -> None:
    servers = placed({"r1": 100}, [member("r1-1"), member("r1-2", wanted=False)], {})
    assert {name: s.weight for name, s in servers.items()} == {"r1-1": 1, "r1-2": 0}


SAFE = Guard(DesiredState(), lease_s=4.0)
HEALTHY = Replica("r2-1", "r2", "serving", "ready")


def test_the_guard_acts_when_the_lease_is_older_than_allowed() -> None:
    assert guarding.lease_reason(SAFE, 4.0) == ""
    assert guarding.lease_reason(SAFE, 4.1) == ("nobody has been in charge for 4.1 s (limit 4 s)")
    assert guarding.lease_reason(Guard(DesiredState(), unattended=True), 9e9) == ""


@pytest.mark.parametrize(
    ("requests", "errors", "acts"),
    [(19, 19, False), (100, 1, False), (100, 2, True), (20, 1, True), (0, 0, False)],
)
def test_the_error_rate_of_a_trial_needs_enough_requests(
    requests: int, errors: int, acts: bool
) -> None:
    limits = LiveLimits(error_rate_max=0.01, requests_min=20, restarts_max=0)
    trial = guarding.Trial(Counts(requests, errors), 0, [HEALTHY], 0)
    assert bool(guarding.trial_reason("r2", limits, trial)) is acts


def test_one_failed_probe_is_an_accident_and_two_are_not() -> None:
    limits = LiveLimits()
    assert guarding.trial_reason("r2", limits, guarding.Trial(Counts(), 0, [HEALTHY], 1)) == ""
    sick = Replica("r2-1", "r2", "serving", "unready", reason="GET /h answered 500")
    reason = guarding.trial_reason("r2", limits, guarding.Trial(Counts(), 0, [sick], 2))
    assert reason == "r2 is not healthy: GET /h answered 500"


@pytest.mark.parametrize("section", ["local", "docker"])
def test_a_front_door_that_a_stranger_holds_names_the_setting_of_its_own_section(
    section: str,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        settings = RunSettings("svc", "test", port=port, section=section)
        with pytest.raises(TargetUnreachable) as refused:
            front_port(settings, 0, 0, lambda port: False)
    assert refused.value.next_step == (
        f"Stop it or set {section}.port in opsctl.yaml, then run: opsctl resume"
    )
