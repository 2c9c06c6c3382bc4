"""No request fails at a switch, and a switch takes effect at once."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.model import Observed, Share
from tests.targets.house import WAIT_MAX_S, House

RATE = 200


@contextlib.contextmanager
def users(house: House, result: dict[str, Any], rate: int = RATE) -> Iterator[None]:
    """Users at the front door while the block runs; `result` is filled in after it."""
    door = house.target.front_door()
    before = house.target.observe().front_requests
    stop = house.project.root / "stop"
    argv = [sys.executable, str(Path(__file__).with_name("open_loop.py"))]
    client = subprocess.Popen(
        [*argv, door.host, str(door.port), str(rate), "120", str(stop)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        house.wait(lambda seen: seen.front_requests > before + rate / 4)
        yield
    finally:
        stop.touch()
        output, _ = client.communicate(timeout=60)
        stop.unlink()
    result.update(json.loads(output))


def switch_back_and_forth(house: House, switches: int) -> dict[str, Any]:
    """Each switch starts a new release beside the old one, moves all traffic, removes the old."""
    old = house.release("r1")
    house.converge(Share(old, 2, 100))
    result: dict[str, Any] = {}
    with users(house, result):
        for number in range(2, switches + 2):
            new = house.release(f"r{number}")
            house.converge(Share(old, 2, 100), Share(new, 2, 0))
            house.converge(Share(old, 2, 0), Share(new, 2, 100))
            house.converge(Share(new, 2, 100))
            old = new
    return result


def test_no_request_fails_in_three_switches(house: House) -> None:
    result = switch_back_and_forth(house, 3)
    assert result["failed"] == []
    assert set(result["by_release"]) == {"r1", "r2", "r3", "r4"}
    seen = house.target.observe()
    assert (seen.front_requests, seen.front_errors) == (result["sent"], 0)
    assert sum(traffic.requests for traffic in seen.traffic) == result["sent"]


@pytest.mark.long
def test_no_request_fails_in_twenty_switches(house: House) -> None:
    result = switch_back_and_forth(house, 20)
    print(json.dumps({k: v for k, v in result.items() if k not in ("by_release", "last")}))
    assert result["failed"] == []
    assert set(result["by_release"]) == {f"r{number}" for number in range(1, 22)}


def more_than(release: str, requests: float) -> Callable[[Observed], bool]:
    """Whether a release has answered more requests than that."""
    return lambda seen: seen.traffic_of(release).requests > requests


def test_a_warm_switch_has_taken_effect_when_it_is_said_to_have(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 0), Share("r2", 1, 100))
    lags = []
    result: dict[str, Any] = {}
    for gone, back in (("r2", "r1"), ("r1", "r2"), ("r2", "r1")):
        with users(house, result):
            applied = time.time()
            house.converge(Share(back, 1, 100), Share(gone, 1, 0))
            switched = time.time()
            answered = house.target.observe().traffic_of(back).requests
            house.wait(more_than(back, answered + RATE / 4))
        assert result["failed"] == []
        assert result["last"][gone] < switched < result["last"][back]
        lags.append(result["last"][gone] - applied)
    print("lags in s:", [round(lag, 4) for lag in lags])  # 20 ms on a quiet machine


POST = """
import sys, time, urllib.request
print(time.time(), flush=True)
with urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"", method="POST")) as answer:
    print(answer.status, answer.headers["x-opsctl-release"])
"""


def test_requests_in_flight_are_answered_by_the_release_that_leaves(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100))
    slow = subprocess.Popen(
        [sys.executable, "-c", POST, f"{house.target.front_door().url}/slow/1.5"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert slow.stdout is not None
    asked = float(slow.stdout.readline())
    house.wait(lambda seen: seen.traffic_of("r1").in_flight == 1)
    seen = house.converge(Share("r2", 1, 100))
    assert time.time() - asked >= 1.5
    answer, _ = slow.communicate(timeout=WAIT_MAX_S)
    assert answer == "200 r1\n"
    assert [replica.name for replica in seen.replicas] == ["r2-1"]
