"""The supervisor: killed, replaced, confused, starved of disk: replicas serve on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from opsctl.errors import Superseded, TargetUnreachable
from opsctl.model import DesiredState, Guard, Share, Stamp
from opsctl.targets.local import LocalTarget
from opsctl.targets.supervisor import wire
from tests.targets.house import House, ask, project_in
from tests.targets.test_local_switch import users

Make = Callable[..., House]


def pids_of(house: House) -> dict[str, int]:
    return {r.name: r.pid for r in house.target.observe().replicas}


def keeper_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_killed_supervisor_is_back_within_a_second_and_nothing_was_touched(house: House) -> None:
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
                assert time.monotonic() - began < 3
                time.sleep(0.02)
        took = time.monotonic() - began
        house.wait(lambda seen: seen.converged)
    assert answer["pid"] != killed
    print(f"supervisor back after {took:.2f} s")
    assert took < 2.0  # one second on a quiet machine
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


def test_a_replica_that_dies_while_nobody_watches_is_started_again(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    before, pid = pids_of(house), house.supervisor_pid()
    os.kill(keeper_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os.kill(before["r1-1"], signal.SIGKILL)
    house.wait(lambda seen: seen.converged and seen.replicas[0].pid != before["r1-1"])
    assert house.ask()[0] == 200


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
    assert stray.wait(timeout=5) == -signal.SIGKILL
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
    pid = house.supervisor_pid()
    for victim in (keeper_of(pid), *house.processes()):
        os.kill(victim, signal.SIGKILL)
    data = json.loads(house.layout.state_file.read_text())
    house.layout.state_file.write_text(json.dumps({**data, "boot": "another-boot"}))
    seen = house.target.observe()
    assert [(r.name, r.phase, r.reason) for r in seen.replicas] == [
        ("r1-1", "exited", "not running since the machine restarted")
    ]
    assert (seen.converged, seen.balancer_up) == (False, False)
    assert house.processes() == []
    house.converge(Share("r1", 1, 100))
    assert house.ask()[:2] == (200, "r1")


def test_a_service_that_was_never_applied_is_empty(house: House) -> None:
    seen = house.target.observe()
    assert (seen.stamp, seen.replicas, seen.converged) == (Stamp(0, 0), (), True)
    assert not house.layout.service_dir.exists()


def test_two_projects_run_side_by_side(make_house: Make) -> None:
    one, two = make_house("one"), make_house("two")
    for house in (one, two):
        house.release("r1")
        house.converge(Share("r1", 1, 100))
    assert one.target.front_door().port != two.target.front_door().port
    one.target.down(1)
    assert one.processes() == []
    assert two.ask()[:2] == (200, "r1")


def test_a_state_directory_with_a_long_path_works(make_house: Make) -> None:
    house = make_house("/".join(["a-rather-long-folder-name"] * 6))
    assert len(str(house.layout.run / "supervisor.sock")) > 200
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    assert house.ask()[:2] == (200, "r1")


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


def test_a_full_disk_is_told_and_traffic_moves_all_the_same(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    house = House(project_in(disk / "p"))
    try:
        house.release("r1")
        house.release("r2")
        house.converge(Share("r1", 1, 100), Share("r2", 1, 0))
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        house.converge(Share("r1", 1, 0), Share("r2", 1, 100))
        assert house.releases_that_answer(10) == {"r2": 10}
        assert "acting anyway" in house.layout.supervisor_log.read_text() + "".join(
            house.all_events()
        )
        (disk / "filler").unlink()
        house.wait(lambda _: json.loads(house.layout.state_file.read_text())["percents"] ==
                   {"r2": 100})  # fmt: skip
        house.target.down(1)
        assert house.processes() == []
    finally:
        while pids := house.processes():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        subprocess.run(["umount", "-l", str(disk)], check=True)


ORDINARY = """
import sys
from pathlib import Path
from opsctl.model import Share
from tests.targets.house import House, ask, project_in
house = House(project_in(Path(sys.argv[1])))
house.release("r1", memory_mb=80)
house.converge(Share("r1", 1, 100))
house.control("r1-1", grow_mb=90)
house.wait(lambda seen: seen.replicas[0].restarts == 1)
print("\\n".join(house.target.events("r1")))
house.target.down(1)
print("left:", house.processes())
"""


def as_nobody(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    packages = Path(yaml.__file__).parents[1]
    real = Path(sys.executable).resolve()
    # Python may be installed in a home folder that nobody else can enter; then Debian's does it.
    open_to_all = all(parent.stat().st_mode & 0o005 == 0o005 for parent in real.parents)
    python = sys.executable if open_to_all else "/usr/bin/python3"
    return subprocess.run(
        [python, "-c", script, str(folder)],
        check=False, user=65534, group=65534, extra_groups=[], cwd=root, text=True,
        capture_output=True, timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": f"{root}:{packages}"},
    )  # fmt: skip


@pytest.fixture
def nobodys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of user nobody."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = tmp_path_factory.mktemp("nobody")
    os.chown(folder, 65534, 65534)
    for parent in folder.parents:
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return folder


def test_an_ordinary_user_can_do_it_all_and_the_watchdog_keeps_memory(nobodys: Path) -> None:
    done = as_nobody(ORDINARY, nobodys)
    assert done.returncode == 0, done.stderr
    killed = re.search(r"killed: (\d+) MiB over its limit of 80 MiB", done.stdout)
    assert killed and 80 < int(killed[1]) < 200
    assert "left: []" in done.stdout


def test_a_state_directory_that_is_not_writable_is_refused_clearly(nobodys: Path) -> None:
    nobodys.chmod(0o555)
    os.chown(nobodys, 0, 0)
    script = (
        "import sys\nfrom pathlib import Path\nfrom opsctl.model import *\n"
        "from opsctl.targets.local import LocalTarget\nfrom tests.targets.house import project_in\n"
        "target = LocalTarget(project_in(Path(sys.argv[1])))\n"
        "print([f.what for f in target.preflight(DesiredState()) if f.status == 'fail'])\n"
        "target.apply(DesiredState(), Stamp(1, 1), Guard(DesiredState()))\n"
    )
    done = as_nobody(script, nobodys)
    assert done.stdout == str([f"{nobodys} can't be written"]) + "\n"
    assert f"cannot use the state directory {nobodys}" in done.stderr
    assert "Make it writable or set local.state_dir" in done.stderr


def test_a_target_can_be_made_without_touching_anything(tmp_path: Path) -> None:
    LocalTarget(project_in(tmp_path / "p"))
    assert list((tmp_path / "p").iterdir()) == []
