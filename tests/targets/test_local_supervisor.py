"""The supervisor: killed, replaced, confused, starved of disk: replicas serve on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opsctl.errors import Superseded, TargetUnreachable
from opsctl.model import DesiredState, Guard, Share, Stamp
from opsctl.targets.supervisor import wire
from tests.apps.processes import cpu_s, least_cpu_s
from tests.targets.house import WAIT_MAX_S, House, ask, keeper_of, with_health
from tests.targets.test_local_switch import users

Make = Callable[..., House]


def pids_of(house: House) -> dict[str, int]:
    return {r.name: r.pid for r in house.target.observe().replicas}


def test_a_killed_supervisor_is_back_by_itself_and_nothing_was_touched(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 2, 75), Share("r2", 1, 25))
    before, killed = pids_of(house), house.supervisor_pid()
    result: dict[str, object] = {}
    with users(house, result):
        os.kill(killed, signal.SIGKILL)
        began = time.monotonic()
        while True:
            try:
                answer = wire.call(house.layout, {"call": "hello"})
                break
            except TargetUnreachable:
                assert time.monotonic() - began < WAIT_MAX_S
                time.sleep(0.02)
        took = time.monotonic() - began
        house.wait(lambda seen: seen.converged)
    assert answer["pid"] != killed
    print(f"supervisor back after {took:.2f} s")
    assert pids_of(house) == before
    assert result["failed"] == []
    assert house.target.observe().stamp == Stamp(1, 1, "hash-1")


def test_supervisor_and_keeper_killed_together_are_repaired_by_the_next_look(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before, pid = pids_of(house), house.supervisor_pid()
    os.kill(keeper_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged)
    assert {r.name: r.pid for r in seen.replicas} == before
    assert house.supervisor_pid() != pid


@pytest.mark.long
def test_a_killed_keeper_is_replaced_although_nobody_looks(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before, pid = pids_of(house), house.supervisor_pid()
    os.kill(keeper_of(pid), signal.SIGKILL)
    limit = time.monotonic() + WAIT_MAX_S
    while house.supervisor_pid() == pid and time.monotonic() < limit:
        time.sleep(0.1)
    new = house.supervisor_pid()
    assert new != pid
    assert "opsctl-keeper" in Path(f"/proc/{keeper_of(new)}/cmdline").read_text()
    house.wait(lambda seen: seen.converged)
    assert pids_of(house) == before


def test_a_replica_that_dies_while_nobody_watches_is_started_again(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before, pid = pids_of(house), house.supervisor_pid()
    os.kill(keeper_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os.kill(before["r1-1"], signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged and seen.replicas[0].pid != before["r1-1"])
    assert house.ask()[0] == 200
    assert seen.replicas[0].restarts == 1


def test_an_older_epoch_is_refused_everywhere_and_stays_so_after_a_kill(house: House) -> None:
    house.release("r1")
    house.epoch = 5
    house.converge(Share("r1", 1, 100))
    os.kill(house.supervisor_pid(), signal.SIGKILL)
    state = DesiredState()
    for stamp in (Stamp(4, 99), Stamp(5, 0)):
        with pytest.raises(Superseded):
            house.target.apply(state, stamp, Guard(state))
    with pytest.raises(Superseded):
        house.target.renew(4)
    with pytest.raises(Superseded):
        house.target.down(4)
    assert house.target.observe().desired == DesiredState((Share("r1", 1, 100),))
    assert house.ask()[0] == 200


def test_the_same_state_again_changes_nothing(house: House) -> None:
    house.release("r1")
    seen = house.converge(Share("r1", 2, 100))
    house.target.apply(seen.desired, seen.stamp, Guard(seen.desired))
    time.sleep(0.3)
    again = house.target.observe()
    assert [(r.name, r.pid) for r in again.replicas] == [(r.name, r.pid) for r in seen.replicas]
    assert again.converged


def test_a_release_that_is_not_in_the_store_is_refused_and_nothing_changes(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    with pytest.raises(TargetUnreachable, match="release r9 can't be read"):
        house.apply(Share("r1", 1, 100), Share("r9", 1, 0))
    assert house.target.observe().stamp.sequence == 1


def test_a_release_whose_files_are_gone_serves_on_and_holds_up_nothing(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100), Share("r2", 1, 0))
    before = pids_of(house)
    house.layout.release_file("r1").unlink()
    os.kill(house.supervisor_pid(), signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged)
    assert pids_of(house) == before
    os.kill(before["r1-1"], signal.SIGKILL)
    seen = house.wait(lambda seen: "release r1 can't be read" in seen.of("r1")[0].reason)
    assert seen.of("r1")[0].phase == "backoff"
    house.converge(Share("r2", 1, 100))
    assert house.releases_that_answer(5) == {"r2": 5}


def test_a_corrupt_memory_is_set_aside_and_made_anew_from_what_runs(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 2, 90), Share("r2", 1, 10))
    before, pid = pids_of(house), house.supervisor_pid()
    house.layout.state_file.write_text('{"format": 1, "ep')
    os.kill(pid, signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged and house.supervisor_pid() != pid)
    assert {r.name: r.pid for r in seen.replicas} == before
    assert seen.desired == DesiredState((Share("r1", 2, 90), Share("r2", 1, 10)))
    assert seen.stamp == Stamp(1, 1, "hash-1")
    assert len(list(house.layout.run.glob("supervisor.json.broken-*"))) == 1
    assert any("set aside" in event for event in house.all_events())


def test_processes_that_nobody_remembers_are_killed(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    stray = subprocess.Popen(
        ["sleep", "60"], start_new_session=True,
        env={"OPSCTL_SERVICE_DIR": str(house.layout.service_dir), "OPSCTL_RELEASE": "r0"},
    )  # fmt: skip
    pid = house.supervisor_pid()
    os.kill(pid, signal.SIGKILL)
    assert stray.wait(timeout=WAIT_MAX_S) == -signal.SIGKILL
    house.wait(lambda seen: seen.converged)
    assert f"orphan pid {stray.pid} of r0 killed" in house.all_events()


def test_a_replica_started_just_before_a_kill_is_adopted_and_not_doubled(house: House) -> None:
    """As if the supervisor had died between starting r2-1 and writing that down."""
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100))
    remembered = house.layout.state_file.read_text()
    house.converge(Share("r1", 1, 100), Share("r2", 1, 0))
    before, pid = pids_of(house), house.supervisor_pid()
    os.kill(keeper_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    data = json.loads(house.layout.state_file.read_text())
    data["replicas"] = json.loads(remembered)["replicas"]
    house.layout.state_file.write_text(json.dumps(data))
    seen = house.wait(lambda seen: seen.converged)
    assert {r.name: r.pid for r in seen.replicas} == before


def test_state_of_a_newer_opsctl_is_refused_and_left_alone(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    door, pid = house.target.front_door(), house.supervisor_pid()
    data = json.loads(house.layout.state_file.read_text())
    text = json.dumps({**data, "format": 99, "opsctl": "9.0.0"})
    house.layout.state_file.write_text(text)
    os.kill(keeper_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TargetUnreachable, match=r"Use opsctl 9\.0\.0 or newer"):
        house.apply(Share("r1", 1, 100))
    assert house.layout.state_file.read_text() == text
    assert ask(door.host, door.port, "/", "POST", "{}")[:2] == (200, "r1")


def test_a_supervisor_of_an_older_version_is_replaced_and_replicas_stay(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before, pid = pids_of(house), house.supervisor_pid()
    monkeypatch.setattr("opsctl.targets.supervisor.start.__version__", "99.0.0")
    house.converge(Share("r1", 1, 100))
    assert house.supervisor_pid() != pid
    assert pids_of(house) == before
    assert any("makes room for a newer one" in event for event in house.all_events())


def test_after_a_reboot_looking_starts_nothing_and_applying_starts_everything(
    house: House,
) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    house.cut_the_power()
    data = json.loads(house.layout.state_file.read_text())
    house.layout.state_file.write_text(json.dumps({**data, "boot": "another-boot"}))
    seen = house.target.observe()
    assert [(r.name, r.phase, r.reason) for r in seen.replicas] == [
        ("r1-1", "exited", "not running since the machine restarted")
    ]
    assert (seen.converged, seen.balancer_up) == (False, False)
    assert house.processes() == []
    seen = house.converge(Share("r1", 1, 100))
    assert house.ask()[:2] == (200, "r1")
    assert [replica.restarts for replica in seen.replicas] == [0]


def test_no_replica_is_blamed_for_ending_together_with_everything_else(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 2, 100))
    house.cut_the_power()
    seen = house.wait(lambda seen: seen.converged)
    assert {replica.name: replica.restarts for replica in seen.replicas} == {"r1-1": 0, "r1-2": 0}
    assert any("ended with everything else" in event for event in house.all_events())


@pytest.mark.long
def test_a_supervisor_with_nothing_to_do_is_frugal(house: House) -> None:
    house.release("r1", health=with_health(interval_s=2.0, streak=1), memory_mb=200)
    house.converge(Share("r1", 3, 100))
    pid = house.supervisor_pid()
    time.sleep(2)
    before = cpu_s(pid)
    time.sleep(15)
    used_s = cpu_s(pid) - before
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    rss_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    print(f"{100 * used_s / 15:.2f} % of a core, {rss_kib / 1024:.1f} MiB")
    # 1 % of a core of ours, and as little on a slower one: Python takes 20 ms to start and end.
    assert used_s < 7.5 * least_cpu_s(sys.executable, "-c", "pass")
    assert rss_kib < 40 * 1024


class ShortOfTime:
    """A clock on which every limit is over as soon as `log` has `word`."""

    def __init__(self, log: Path, word: str) -> None:
        self._log, self._word = log, word

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def monotonic(self) -> float:
        is_over = self._log.exists() and self._word in self._log.read_text()
        return time.monotonic() + (1e6 if is_over else 0.0)


def test_a_supervisor_that_can_not_start_says_why(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShortOfTime(house.layout.supervisor_log, "OSError")
    monkeypatch.setattr("opsctl.targets.supervisor.start.time", clock)
    house.layout.run.mkdir(parents=True)
    (house.layout.run / "supervisor.sock").mkdir()
    with pytest.raises(TargetUnreachable, match=r"did not start within 15 s: .*supervisor\.sock"):
        house.apply()


def test_a_service_that_was_never_applied_is_empty(house: House) -> None:
    seen = house.target.observe()
    assert (seen.stamp, seen.replicas, seen.converged) == (Stamp(0, 0), (), True)
    assert not house.layout.service_dir.exists()


def test_a_supervisor_that_is_stopped_is_reported_as_silent(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    os.kill(house.supervisor_pid(), signal.SIGSTOP)
    try:
        with pytest.raises(TargetUnreachable, match=r"does not answer within 0\.3 s"):
            wire.call(house.layout, {"call": "hello"}, timeout_s=0.3)
        assert house.ask()[0] == 200
    finally:
        os.kill(house.supervisor_pid(), signal.SIGCONT)
