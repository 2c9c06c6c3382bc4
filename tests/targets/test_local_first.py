"""The way of a service on this machine: start, shift, drain, remove, guard, down."""

from __future__ import annotations

import time

from opsctl.model import DesiredState, Share
from tests.targets.house import House


def test_a_release_is_started_and_answers_at_the_front_door(house: House) -> None:
    house.release("r1")
    seen = house.converge(Share("r1", 2, 100))
    assert {r.name: r.phase for r in seen.replicas} == {"r1-1": "ready", "r1-2": "ready"}
    assert house.releases_that_answer(10) == {"r1": 10}


def test_weights_are_exact_with_different_replica_counts(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 3, 95), Share("r2", 1, 5))
    answers = house.releases_that_answer(300)
    assert abs(answers["r2"] - 15) <= 3  # 5 % of 300, exact to 1 % of the traffic
    assert answers["r1"] == 300 - answers["r2"]


def test_removed_releases_are_drained_and_stopped(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100))
    house.converge(Share("r1", 1, 0), Share("r2", 1, 100))
    assert house.releases_that_answer(20) == {"r2": 20}
    seen = house.converge(Share("r2", 1, 100))
    assert [r.name for r in seen.replicas] == ["r2-1"]
    assert house.releases_that_answer(20) == {"r2": 20}


def test_the_guard_takes_an_unproved_release_off_when_nobody_is_in_charge(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100))
    safe = DesiredState((Share("r1", 1, 100),))
    house.converge(Share("r1", 1, 50), Share("r2", 1, 50), safe=safe, lease_s=1.0)
    began = time.monotonic()
    seen = house.wait(lambda seen: seen.guarded)
    assert time.monotonic() - began < 2.0
    assert "nobody has been in charge" in seen.guard_reason
    house.wait(lambda seen: [r.name for r in seen.replicas] == ["r1-1"])
    assert house.releases_that_answer(20) == {"r1": 20}
    assert list(house.layout.inbox.glob("*.json")) == []  # resume goes on with the rollout


def test_down_leaves_no_process_and_no_file(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 2, 100))
    assert len(house.processes()) >= 5
    house.target.down(house.epoch)
    assert house.processes() == []
    held = {"run", "logs", "releases", "models", "secrets"}
    assert {path.name for path in house.layout.service_dir.iterdir()} & held == set()
