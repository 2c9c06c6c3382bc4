"""Surroundings: other projects, long paths, a full disk, ordinary users."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from opsctl.model import Share
from opsctl.targets.local import LocalTarget
from tests.targets.house import House, project_in

Make = Callable[..., House]


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


def is_open_to_all(folder: Path) -> bool:
    """Whether every user can enter `folder`."""
    return all(one.stat().st_mode & 0o005 == 0o005 for one in (folder, *folder.parents))


def as_nobody(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    packages = Path(yaml.__file__).parents[1]
    if not is_open_to_all(root) or not is_open_to_all(packages):
        pytest.skip(f"{root} is in a folder that nobody but its owner can enter")
    real = Path(sys.executable).resolve()
    # Python may be installed in a home folder that nobody else can enter; then Debian's does it.
    python = sys.executable if is_open_to_all(real.parent) else "/usr/bin/python3"
    return subprocess.run(
        [python, "-c", script, str(folder)],
        check=False, user=65534, group=65534, extra_groups=[], cwd=root, text=True,
        capture_output=True, timeout=250,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": f"{root}:{packages}"},
    )  # fmt: skip


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder of user nobody. Not below pytest's own, which others may not enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as made:
        os.chown(made, 65534, 65534)
        yield Path(made)


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
