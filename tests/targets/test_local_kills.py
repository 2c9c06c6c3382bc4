"""Kills at random instants: whatever dies, users notice nothing and nothing is left over."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.model import Observed, Share
from opsctl.targets.supervisor import procfs
from tests.targets.house import WAIT_MAX_S, House
from tests.targets.test_local_switch import users

SWITCHES = 12
USUAL_S = 0.5
"""A quiet machine's time from a kill to the successor of what was killed."""

ROUNDS_MAX = 80
"""On a fast machine twelve switches are over before ten kills have fallen."""


class Killer(threading.Thread):
    """Sends SIGKILL to what `find` names, 0.2 to 1.2 s after that was found anew.

    A slow machine gets longer pauses, or nothing would ever be reached between two kills.
    """

    def __init__(self, find: Any, seed: int) -> None:
        super().__init__()
        self.find = find
        self.random = random.Random(seed)
        self.kills = 0
        self.last = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        slowness = 1.0
        while not self.stopped.wait(slowness * self.random.uniform(0.2, 1.2)):
            with contextlib.suppress(OSError, ValueError, LookupError):
                victim = self.find()
                os.kill(victim, signal.SIGKILL)
                self.kills, self.last = self.kills + 1, victim
                slowness = max(1.0, self._until_another(victim) / USUAL_S)

    def _until_another(self, victim: int) -> float:
        """Seconds until something else than `victim` is found."""
        began = time.monotonic()
        while not self.stopped.wait(0.02):
            with contextlib.suppress(OSError, ValueError, LookupError):
                if self.find() != victim:
                    break
        return time.monotonic() - began

    def end(self) -> None:
        """Kill nobody any more; returns when the last one killed is gone."""
        self.stopped.set()
        self.join()
        while procfs.identity(self.last):
            time.sleep(0.01)


def rounds(killer: Killer, kills: int) -> Iterator[int]:
    """Numbers of releases to switch to: SWITCHES at least, more until `kills` have fallen."""
    for number in range(2, ROUNDS_MAX):
        if number >= SWITCHES + 2 and killer.kills >= kills:
            return
        yield number


def patiently(house: House, *shares: Share, timeout_s: float = 120.0) -> Observed:
    """Order a state until it is reached, as `resume` does after each kill."""
    limit = time.monotonic() + timeout_s
    house.sequence += 1
    while True:
        with contextlib.suppress(TargetUnreachable):
            house.sequence -= 1
            house.apply(*shares)
            while time.monotonic() < limit:
                seen = house.target.observe()
                house.target.renew(house.epoch)
                if seen.converged:
                    return seen
                time.sleep(0.02)
        assert time.monotonic() < limit, house.all_events()[-20:]


@pytest.mark.long
def test_supervisor_killed_at_random_while_switching_costs_no_request(house: House) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    old = house.release("r1")
    house.converge(Share(old, 2, 100))
    killer = Killer(house.supervisor_pid, seed)
    result: dict[str, Any] = {}
    with users(house, result):
        killer.start()
        try:
            for number in rounds(killer, kills=10):
                new = house.release(f"r{number}")
                patiently(house, Share(old, 2, 100), Share(new, 2, 0))
                patiently(house, Share(old, 2, 0), Share(new, 2, 100))
                patiently(house, Share(new, 2, 100))
                old = new
        finally:
            killer.end()
    print(json.dumps({"kills": killer.kills, **{k: result[k] for k in ("sent", "failed")}}))
    assert result["failed"] == []
    assert killer.kills >= 10
    seen = house.wait(lambda seen: seen.converged)
    replicas = {replica.pid for replica in seen.replicas}
    leaders = {pid for pid in marked(house) if session_of(pid) == pid}
    assert leaders - balancers(house) == replicas
    house.target.down(house.epoch)
    assert left_after(house, WAIT_MAX_S) == []


@pytest.mark.long
def test_balancer_killed_at_random_while_switching_comes_back_right(house: House) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    old = house.release("r1")
    house.converge(Share(old, 1, 100))
    killer = Killer(lambda: int(house.layout.haproxy_pid_file.read_text().split()[0]), seed)
    killer.start()
    try:
        for number in rounds(killer, kills=5):
            new = house.release(f"r{number}")
            patiently(house, Share(old, 1, 100), Share(new, 1, 0))
            patiently(house, Share(old, 1, 0), Share(new, 1, 100))
            patiently(house, Share(new, 1, 100))
            old = new
    finally:
        killer.end()
    assert killer.kills >= 5
    house.wait(lambda seen: seen.converged)
    assert house.releases_that_answer(20) == {old: 20}
    assert len(balancers(house)) == 1


@pytest.mark.long
def test_everything_killed_at_random_ends_with_what_was_wanted(house: House) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    house.release("r1", health={**HEALTH_FOR_KILLS})
    house.release("r2", health={**HEALTH_FOR_KILLS})
    house.converge(Share("r1", 2, 75), Share("r2", 2, 25))
    killer = Killer(lambda: chosen.choice(house.processes()), seed)
    killer.start()
    time.sleep(15)
    killer.end()
    print(f"{killer.kills} kills")

    def all_is_back(seen: Observed) -> bool:
        """A death that nobody has noticed yet is none of a converged state."""
        needed = {replica.pid for replica in seen.replicas} | balancers(house)
        return seen.converged and len(needed) == 5 and needed <= set(house.processes())

    seen = house.wait(all_is_back)
    assert seen.weights == {"r1": 75, "r2": 25}
    answers = house.releases_that_answer(100)
    assert abs(answers["r2"] - 25) <= 1
    house.target.down(house.epoch)
    assert left_after(house, WAIT_MAX_S) == []


HEALTH_FOR_KILLS = {
    "path": "/health/ready", "live_path": "/health/live", "tries": 30, "interval_s": 0.05,
    "timeout_s": 1.0, "streak": 1, "max_restarts": 1000,
}  # fmt: skip


def marked(house: House) -> list[int]:
    """Processes that carry the service's mark in their environment."""
    word = f"OPSCTL_SERVICE_DIR={house.layout.service_dir}".encode()
    found = []
    for pid in house.processes():
        with contextlib.suppress(OSError):
            if word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def left_after(house: House, seconds: float) -> list[int]:
    """Processes of the service that do not end within `seconds`; the keeper is the last to go."""
    limit = time.monotonic() + seconds
    while (left := list(house.processes())) and time.monotonic() < limit:
        time.sleep(0.05)
    return left


def session_of(pid: int) -> int:
    """The session of a process; 0 when it is gone meanwhile."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def balancers(house: House) -> set[int]:
    """HAProxy processes of the service."""
    found = set()
    for pid in marked(house):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as name:
            if name.read().strip() == "haproxy":
                found.add(pid)
    return found
