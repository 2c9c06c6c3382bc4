"""Logs, events, and commands run for a release."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable

import pytest

from opsctl.model import Share
from opsctl.targets.supervisor.rotation import MIB, LogLimit, rotate
from tests.targets.house import House

Make = Callable[..., House]
TALKER = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"


def test_log_lines_are_led_by_the_replica_they_come_from(house: House) -> None:
    house.release("r1")
    seen = house.converge(Share("r1", 2, 100))
    lines = list(house.target.logs("r1"))
    assert lines == [f"{r.name} listening on {r.port} and {r.health_port}" for r in seen.replicas]


def test_only_the_last_lines_are_given(house: House) -> None:
    house.layout.logs.mkdir(parents=True)
    log = house.layout.replica_log("r1-1")
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))
    house.layout.replica_log("r10-1").write_text("another release\n")
    assert list(house.target.logs("r1", lines=2)) == ["r1-1 line 99998", "r1-1 line 99999"]
    assert len(list(house.target.logs("r1", lines=10_000))) == 10_000
    assert list(house.target.logs("r1", lines=0)) == []
    assert list(house.target.logs("r3")) == []


def test_lines_are_taken_from_the_rotated_file_when_the_new_one_is_short(house: House) -> None:
    house.layout.logs.mkdir(parents=True)
    log = house.layout.replica_log("r1-1")
    log.write_text("".join(f"line {n}\n" for n in range(10)))
    rotate(log, LogLimit(20, keep=2))
    with log.open("a") as output:
        output.write("line 10\n")
    assert list(house.target.logs("r1", lines=3)) == ["r1-1 line 8", "r1-1 line 9", "r1-1 line 10"]


def test_following_sees_each_line_once_and_survives_rotation(house: House) -> None:
    house.layout.logs.mkdir(parents=True)
    log = house.layout.replica_log("r1-1")
    log.write_text("line 0\n")
    stop, is_up_to_date = threading.Event(), threading.Event()

    def write() -> None:
        for number in itertools.count(1):
            if stop.wait(0.01):
                return
            with log.open("a") as output:
                output.write(f"line {number}\n")
            if number == 100:
                is_up_to_date.wait()
                rotate(log, LogLimit(20, keep=1))

    following = house.target.logs("r1", lines=1, follow=True)
    found = [next(following)]
    writer = threading.Thread(target=write)
    writer.start()
    try:
        found += itertools.islice(following, 100)
        is_up_to_date.set()
        found += itertools.islice(following, 49)
    finally:
        is_up_to_date.set()
        stop.set()
        writer.join()
    assert found == [f"r1-1 line {number}" for number in range(150)]


def test_following_sees_a_replica_that_starts_later(house: House) -> None:
    house.layout.logs.mkdir(parents=True)
    following = house.target.logs("r1", follow=True)
    timer = threading.Timer(0.3, house.layout.replica_log("r1-2").write_text, ["hello\n"])
    timer.start()
    assert next(following) == "r1-2 hello"
    timer.join()


@pytest.mark.long
def test_a_replica_goes_on_writing_into_its_rotated_log(make_house: Make) -> None:
    house = make_house(log_max_mb=1, log_files=2)
    script = "head -c 1100000 /dev/zero | tr '\\0' 'x'; " + TALKER
    house.release("r1", command=["/bin/sh", "-c", script])
    house.apply(Share("r1", 1, 0))
    log = house.layout.replica_log("r1-1")
    house.wait(lambda _: log.with_name("r1-1.log.1").exists())
    house.wait(lambda _: b"line" in log.read_bytes())
    data = log.read_bytes()
    assert b"\0" not in data  # appended from the start, not after a hole
    assert len(data) < MIB


def test_events_tell_the_story_of_a_release(house: House) -> None:
    house.release("r1")
    seen = house.converge(Share("r1", 1, 100))
    house.converge()
    told = [line.split(" ", 1)[1] for line in house.target.events("r1")]
    assert told[0] == f"r1-1 started: pid {seen.replicas[0].pid}, port {seen.replicas[0].port}" or (
        told[0].startswith("load balancer started")
    )
    assert "traffic: r1 100 %" in told
    assert "traffic: nothing serves" in told
    assert told[-1] == "r1-1 stopped and removed"
    assert house.target.events("r2") == [
        line for line in house.target.events("r1") if "r1" not in line and "traffic" not in line
    ]


def test_a_command_runs_in_the_place_of_a_replica(house: House) -> None:
    house.release("r1", env={"APP_COLOUR": "blue"}, secrets=["APP_TOKEN"], cpus=[0])
    house.secrets("r1", {"APP_TOKEN": "s3cret-value"})
    seen = house.converge(Share("r1", 1, 0)).replicas[0]
    say = 'echo $APP_COLOUR $APP_TOKEN $EXTRA {port} $OPSCTL_RELEASE "{json: 1}"'
    script = f"{say}; pwd; grep Cpus_allowed_list /proc/self/status; exit 7"
    done = house.target.run_in("r1", ["/bin/sh", "-c", script], env={"EXTRA": "e"}, timeout_s=10)
    first, folder, cpus = done.stdout.splitlines()
    assert done.exit_code == 7
    assert first == f"blue *** e {seen.port} r1 {{json: 1}}"
    assert folder == str(house.layout.release_dir("r1") / "app")
    assert cpus.split() == ["Cpus_allowed_list:", "0"]
    assert os.sched_getaffinity(0) == set(range(os.cpu_count() or 1))


def test_a_command_that_runs_too_long_is_stopped(house: House) -> None:
    house.release("r1")
    began = time.monotonic()
    done = house.target.run_in("r1", ["sleep", "60"], env={}, timeout_s=0.3)
    assert time.monotonic() - began < 50  # it would sleep for 60 s
    assert (done.exit_code, done.stderr) == (124, "stopped after 0.3 s\n")


def test_endpoints_are_those_of_the_running_replicas(house: House) -> None:
    house.release("r1")
    house.release("r2", env={"APP_EXIT": "1"})
    seen = house.converge(Share("r1", 2, 100), Share("r1", 1, role="baseline"))
    house.apply(Share("r1", 2, 100), Share("r1", 1, role="baseline"), Share("r2", 1, 0))
    house.wait(lambda seen: bool(seen.of("r2")) and seen.of("r2")[0].restarts == 3)
    ends = house.target.endpoints("r1")
    assert [(e.name, e.port, e.health_port) for e in ends] == [
        (r.name, r.port, r.health_port) for r in seen.of("r1")
    ]
    assert [e.name for e in house.target.endpoints("r1", "baseline")] == ["r1-b1"]
    assert house.target.endpoints("r2") == []


def test_a_baseline_copy_never_gets_user_traffic(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100), Share("r1", 1, role="baseline"))
    replicas = {house.ask()[2]["replica"] for _ in range(20)}
    assert replicas == {"r1-1"}
    assert "r1-b1" not in house.layout.haproxy_config.read_text()


@pytest.mark.parametrize("name", ["state directory", "front door", "replica ports"])
def test_preflight_is_content_with_a_good_machine(house: House, name: str) -> None:
    finding = next(f for f in house.target.preflight(house.state(1)) if f.check == name)
    assert finding.status == "ok", finding


def test_preflight_names_what_is_missing(make_house: Make) -> None:
    house = make_house(haproxy="/no/haproxy", replica_ports=(20000, 20001))
    findings = {f.check: f for f in house.target.preflight(house.state(2))}
    assert findings["balancer"].status == "fail"
    assert "/no/haproxy can't be run" in findings["balancer"].what
    assert findings["replica ports"].what == "2 ports of 20000-20001 are free, 4 are needed"
    assert not house.layout.service_dir.exists()
