"""Nothing of a replica outlives it, in whatever session it is, and nothing else ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opsctl.model import Share
from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.remains import Ended, Remains
from tests.targets.house import APP, WAIT_MAX_S, House

Start = Callable[..., "subprocess.Popen[bytes]"]
HELPED = ["/bin/sh", "-c", f"(setsid sleep 3333 &) ; exec {{python}} {APP}"]
"""A good application with a child that has forked twice and leads a session of its own."""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes with an environment and a session of their own."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(**env: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["/bin/sleep", "600"], env=env, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def apart(house: House) -> dict[str, int]:
    """The children that run, by the replica that started them."""
    found = procfs.marked(house.layout.service_dir)
    return {
        env[procfs.REPLICA_MARK]: pid
        for pid, env in found.items()
        if procfs.process_name(pid) == "sleep"
    }


def eventually(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT_MAX_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_what_carries_the_mark_of_a_replica_is_ended_and_nothing_else(
    start: Start, tmp_path: Path
) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "one2")
    mine = start(OPSCTL_SERVICE_DIR=one, OPSCTL_REPLICA="r1-1")
    others = [
        start(OPSCTL_SERVICE_DIR=one, OPSCTL_REPLICA="r1-11"),
        start(OPSCTL_SERVICE_DIR=one, OPSCTL_BALANCER="1"),
        start(OPSCTL_SERVICE_DIR=two, OPSCTL_REPLICA="r1-1"),
        start(OPSCTL_REPLICA="r1-1"),
    ]
    ended = asyncio.run(Remains("r1-1", Path(one)).end(None))
    assert ended == Ended(detached=(mine.pid,))
    assert mine.wait() == -signal.SIGKILL
    assert [other.poll() for other in others] == [None] * 4
    assert asyncio.run(Remains("r1-1", Path(one)).end(None)) == Ended()


def test_what_is_in_the_session_of_a_replica_is_ended_without_a_mark(
    start: Start, tmp_path: Path
) -> None:
    unmarked, other = start(), start()
    assert asyncio.run(Remains("r1-1", tmp_path).end(unmarked.pid)) == Ended()
    assert unmarked.wait() == -signal.SIGKILL
    assert other.poll() is None


def test_a_process_that_has_ended_and_was_not_waited_for_is_ending(start: Start) -> None:
    process = start()
    assert not procfs.is_ending(process.pid)
    process.kill()
    eventually(lambda: procfs.identity(process.pid) is None)
    assert procfs.is_ending(process.pid)
    process.wait()
    assert not procfs.is_ending(process.pid)


def test_people_are_told_what_was_left() -> None:
    assert Ended().text == ""
    assert Ended((7,)).text == "a process that it had left in the background ended with it"
    assert Ended((7, 8), (8,)).text == (
        "2 processes that it had left in the background ended with it; pid 8 of it can't be ended"
    )


def test_the_first_process_of_a_replica_is_told_from_what_it_started(
    start: Start, tmp_path: Path
) -> None:
    mark = {"OPSCTL_SERVICE_DIR": str(tmp_path), "OPSCTL_REPLICA": "r1-1"}
    first = start(**mark)
    time.sleep(0.05)  # start times are counted in hundredths of a second
    start(**mark)
    other = start(**{**mark, "OPSCTL_REPLICA": "r1-2"})
    # A process shows its environment only a moment after it has begun its program.
    eventually(lambda: len(procfs.marked(tmp_path)) == 3)
    assert procfs.leaders(procfs.marked(tmp_path)) == {"r1-1": first.pid, "r1-2": other.pid}


def test_a_candidate_that_goes_into_the_background_leaves_nothing_running(house: House) -> None:
    house.release("r1", command=["/bin/sh", "-c", "setsid sleep 3333 & exit 0"])
    house.apply(Share("r1", 1, 0))
    seen = house.wait(lambda seen: seen.replicas and seen.replicas[0].restarts > 0)
    assert "a process that it had left in the background ended with it" in seen.replicas[0].reason
    house.apply()
    house.wait(lambda seen: not seen.replicas)
    assert apart(house) == {}


def test_a_child_in_a_session_of_its_own_lives_as_long_as_its_replica(house: House) -> None:
    house.release("r1", command=HELPED)
    before = {r.name: r.pid for r in house.converge(Share("r1", 2, 100)).replicas}
    eventually(lambda: set(apart(house)) == {"r1-1", "r1-2"})
    first = apart(house)
    supervisor = house.supervisor_pid()
    os.kill(supervisor, signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged and house.supervisor_pid() != supervisor)
    assert {r.name: r.pid for r in seen.replicas} == before
    assert apart(house) == first
    os.kill(before["r1-1"], signal.SIGKILL)
    house.wait(lambda seen: seen.converged and sum(r.restarts for r in seen.replicas) == 1)
    eventually(lambda: set(apart(house)) == {"r1-1", "r1-2"})
    second = apart(house)
    assert second["r1-1"] != first["r1-1"]
    assert second["r1-2"] == first["r1-2"]
    assert procfs.identity(first["r1-1"]) is None
    house.converge()
    house.wait(lambda seen: not seen.replicas)
    assert apart(house) == {}


def test_a_child_is_no_replica_when_the_memory_is_lost(house: House) -> None:
    house.release("r1", command=HELPED)
    before = house.converge(Share("r1", 1, 100)).replicas[0]
    eventually(lambda: set(apart(house)) == {"r1-1"})
    supervisor = house.supervisor_pid()
    house.layout.state_file.write_text('{"format": 1, "ep')
    os.kill(supervisor, signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged and house.supervisor_pid() != supervisor)
    assert [(r.name, r.pid) for r in seen.replicas] == [("r1-1", before.pid)]
    assert seen.desired.shares == (Share("r1", 1, 100),)
