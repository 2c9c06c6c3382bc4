"""Replicas: how they start, fail, are restarted, limited and stopped."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opsctl.model import Observed, Replica, Share
from tests.targets.house import House, with_health


def only(seen: Observed) -> Replica:
    assert len(seen.replicas) == 1
    return seen.replicas[0]


def test_a_replica_that_exits_at_start_is_reported_with_its_code_and_last_words(
    house: House,
) -> None:
    house.release("r1", env={"APP_EXIT": "3"})
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: seen.replicas[0].phase in ("backoff", "crash_loop")))
    assert seen.exit_code == 3
    assert re.fullmatch(
        r"exited with code 3 \d+\.\d s after its start; last log lines: cannot load the model",
        seen.reason,
    )


def test_three_crashes_within_a_minute_are_a_crash_loop(house: House) -> None:
    house.release("r1", env={"APP_EXIT": "3"})
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: seen.replicas[0].phase == "crash_loop"))
    assert seen.restarts == 3
    assert "cannot load the model" in seen.reason
    assert [event for event in house.all_events() if event.endswith("next start in 10 s")]


def test_a_command_that_does_not_exist_is_named(house: House) -> None:
    house.release("r1", command=["/no/such/program", "{port}"])
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: seen.replicas and seen.replicas[0].phase == "backoff"))
    assert "cannot be started" in seen.reason
    assert "/no/such/program" in seen.reason


def test_a_replica_that_hangs_at_start_stays_in_phase_starting(house: House) -> None:
    house.release("r1", env={"APP_START": "60"})
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: "GET" in seen.replicas[0].reason))
    assert (seen.phase, seen.ready_streak) == ("starting", 0)
    where = f"127.0.0.1:{seen.health_port}"
    assert seen.reason == f"GET /health/ready on {where}: connection refused"


def test_how_it_ended_is_told_and_never_the_probe_that_met_its_closed_socket(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    house.control("r1-1", fade=7)
    told: set[str] = set()

    def started_again(seen: Observed) -> int:
        replica = only(seen)
        if replica.phase != "ready":
            told.add(replica.reason)
        return replica.restarts

    house.wait(started_again)
    assert told
    assert [reason for reason in told if "exited with code 7" not in reason] == []


def test_a_crashed_replica_is_started_again_and_serves(house: House) -> None:
    house.release("r1")
    before = only(house.converge(Share("r1", 1, 100)))
    os.kill(before.pid, signal.SIGKILL)
    after = only(house.wait(lambda seen: seen.converged and seen.replicas[0].restarts == 1))
    assert after.pid != before.pid
    assert after.port == before.port
    assert house.ask()[0] == 200
    assert any("was ended by SIGKILL" in event for event in house.target.events("r1"))


def test_requests_wait_while_the_only_replica_is_restarted(house: House) -> None:
    house.release("r1", env={"APP_START": "0.3"})
    victim = only(house.converge(Share("r1", 1, 100)))
    os.kill(victim.pid, signal.SIGKILL)
    while Path(f"/proc/{victim.pid}").exists():
        time.sleep(0.01)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: house.ask(), range(20)))
    assert {(status, release) for status, release, _ in answers} == {(200, "r1")}
    assert victim.pid not in {answer["pid"] for _, _, answer in answers}


def test_requests_do_not_wait_for_ever_for_a_replica_that_stays_away(house: House) -> None:
    house.release("r1")
    pid = only(house.converge(Share("r1", 1, 100))).pid
    house.layout.release_file("r1").unlink()  # it can't be started again
    os.kill(pid, signal.SIGKILL)
    assert house.ask()[0] == 503  # after four tries, one a second
    # From then on HAProxy knows that it is down, and tries nobody.
    while "svc/<NOSRV>" not in house.layout.haproxy_log.read_text():
        assert house.ask()[0] == 503


def test_a_release_with_two_replicas_hides_the_death_of_one(house: House) -> None:
    house.release("r1")
    seen = house.converge(Share("r1", 2, 100))
    os.kill(seen.replicas[0].pid, signal.SIGKILL)
    assert [house.ask()[0] for _ in range(50)] == [200] * 50


def test_health_that_turns_bad_makes_a_replica_unready(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    house.control("r1-1", health=500)
    seen = only(house.wait(lambda seen: seen.replicas[0].phase == "unready"))
    assert seen.ready_streak == 0
    assert seen.reason == f"GET /health/ready on 127.0.0.1:{seen.health_port} answered 500"
    house.control("r1-1", health=200)
    house.wait(lambda seen: seen.converged)


def test_a_replica_that_is_not_alive_is_restarted(house: House) -> None:
    house.release("r1")
    first = only(house.converge(Share("r1", 1, 100)))
    house.control("r1-1", health=503, live=500)
    seen = only(house.wait(lambda seen: seen.converged and seen.replicas[0].pid != first.pid))
    assert seen.restarts == 1
    assert any("killed: not alive, 3 times" in text for text in house.target.events("r1"))


def test_readiness_counts_a_streak(house: House) -> None:
    house.release("r1", health=with_health(streak=5, interval_s=0.2))
    house.apply(Share("r1", 1, 0))
    looks: list[Replica] = []

    def converged(seen: Observed) -> bool:
        looks.extend(seen.replicas)
        return seen.converged

    house.wait(converged)
    assert [r for r in looks if (r.ready_streak >= 5) != (r.phase == "ready")] == []
    assert looks[-1].phase == "ready"


def test_environment_and_secrets_reach_the_replica(house: House) -> None:
    house.release("r1", env={"APP_COLOUR": "blue"}, secrets=["APP_TOKEN"], model_path="/m/1")
    house.secrets("r1", {"APP_TOKEN": "s3cret-value", "APP_OTHER": "not named"})
    seen = only(house.converge(Share("r1", 1, 100)))
    env = house.ask("/env")[2]["env"]
    assert env == {
        "APP_COLOUR": "blue",
        "APP_TOKEN": "s3cret-value",
        "OPSCTL_SERVICE": "svc",
        "OPSCTL_ENVIRONMENT": "test",
        "OPSCTL_RELEASE": "r1",
        "OPSCTL_REPLICA": "r1-1",
        "OPSCTL_HOST": "127.0.0.1",
        "OPSCTL_PORT": str(seen.port),
        "OPSCTL_HEALTH_PORT": str(seen.health_port),
        "OPSCTL_MODEL_PATH": "/m/1",
        "OPSCTL_SERVICE_DIR": str(house.layout.service_dir),
    }
    for path in [*house.layout.run.iterdir(), *house.layout.logs.iterdir()]:
        if path.is_file():
            assert b"s3cret-value" not in path.read_bytes(), path


def test_a_secret_in_the_last_words_is_struck_out(house: House) -> None:
    house.release(
        "r1",
        command=["/bin/sh", "-c", "echo token is $APP_TOKEN; exit 4"],
        secrets=["APP_TOKEN"],
    )
    house.secrets("r1", {"APP_TOKEN": "s3cret-value"})
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: seen.replicas and seen.replicas[0].restarts > 0))
    assert seen.reason.endswith("last log lines: token is ***")


def test_placeholders_are_filled(house: House) -> None:
    script = "echo {release} {replica} {model} {port} {health_port}; sleep 60"
    house.release("r1", command=["/bin/sh", "-c", script], model_path="/m/1")
    house.apply(Share("r1", 1, 0))
    seen = only(house.wait(lambda seen: seen.replicas[0].pid > 0))
    log = house.layout.replica_log("r1-1")
    house.wait(lambda _: log.read_text().endswith("\n"))
    assert log.read_text() == f"r1 r1-1 /m/1 {seen.port} {seen.health_port}\n"


def test_a_fixed_port_that_is_taken_is_named_with_its_holder(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        house.release("r1", env={"APP_PORT": str(port)})
        house.apply(Share("r1", 1, 0))
        seen = only(house.wait(lambda seen: seen.replicas and seen.replicas[0].restarts > 0))
    assert f"port {port} of its command is held by pid {os.getpid()} (" in seen.reason


def test_somebody_elses_answer_on_the_port_does_not_count(house: House) -> None:
    """The replica sleeps; another process takes its ports and answers 200 there."""
    house.release("r1", env={"APP_START": "60"})
    house.release("r2", env={"APP_START": "60"})
    house.apply(Share("r1", 1, 0))
    first = only(house.wait(lambda seen: seen.replicas[0].pid > 0))
    stranger = {"APP_PORT": str(first.port), "APP_HEALTH_PORT": str(first.health_port)}
    house.release("r3", env=stranger)
    house.apply(Share("r1", 1, 0), Share("r3", 1, 0))

    def moved(seen: Observed) -> bool:
        return any(r.name == "r1-1" and r.port != first.port and r.pid for r in seen.replicas)

    seen = house.wait(moved)
    r1 = next(r for r in seen.replicas if r.name == "r1-1")
    assert r1.phase == "starting"
    assert r1.restarts == 0
    assert any("trying another port" in event for event in house.target.events("r1"))
    assert all("ready after" not in event for event in house.target.events("r1"))


def test_a_replica_that_ignores_sigterm_is_killed_after_its_time(house: House) -> None:
    house.release("r1", env={"APP_IGNORE_TERM": "1"}, stop_timeout_s=0.5)
    house.release("r2")
    pid = only(house.converge(Share("r1", 1, 100))).pid
    house.converge(Share("r2", 1, 100))
    assert not Path(f"/proc/{pid}").exists()
    assert any("ignored SIGTERM for 0.5 s" in event for event in house.target.events("r1"))


def test_children_of_a_replica_go_with_it(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before = set(house.processes())
    house.control("r1-1", fork_mb=1)
    # A process shows its environment only a moment after it has begun its program.
    house.wait(lambda _: set(house.processes()) - before)
    child = (set(house.processes()) - before).pop()
    house.apply()
    house.wait(lambda seen: not seen.replicas)
    house.wait(lambda _: child not in house.processes())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_replicas_are_pinned_and_moved_to_other_cpus(house: House) -> None:
    house.release("r1", cpus=[0])
    pid = only(house.converge(Share("r1", 1, 100))).pid
    assert affinities(pid) == {frozenset({0})}
    house.converge(Share("r1", 1, 100, cpus=(1,)))
    assert affinities(pid) == {frozenset({1})}
    assert only(house.target.observe()).restarts == 0


def affinities(pid: int) -> set[frozenset[int]]:
    """The CPUs of each thread of a process."""
    threads = map(int, os.listdir(f"/proc/{pid}/task"))
    return {frozenset(os.sched_getaffinity(thread)) for thread in threads}
