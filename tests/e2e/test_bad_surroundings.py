"""A machine that does not do what it should."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from opsctl import shell
from tests.apps.processes import wait_until
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick

MOUNT_TIMEOUT_S = 20.0
SLOW_SHIFT = {"stages": [{"weight": 20, "hold_s": 4}]}
SUPERVISOR = re.compile(r"\S*python\S* -m opsctl\.targets\.supervisor ")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def mount(*argv: str) -> None:
    """Run mount, or skip where even root may not (a container without the capability)."""
    done = shell.run(["mount", *argv], timeout_s=MOUNT_TIMEOUT_S)
    if not done.ok:
        pytest.skip(f"mount is not allowed here: {done.why}")


def unmount(folder: Path) -> None:
    """Undo it."""
    done = shell.run(["umount", "-l", str(folder)], timeout_s=MOUNT_TIMEOUT_S)
    assert done.ok, done.why


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody can write to for the length of a block."""
    if os.geteuid() != 0:
        mode = stat.S_IMODE(folder.stat().st_mode)
        folder.chmod(0o500)
        yield
        folder.chmod(mode)
        return
    mount("--bind", str(folder), str(folder))
    try:
        mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        unmount(folder)


@pytest.fixture
def on_a_small_disk(make_site: MakeSite) -> Iterator[Site]:
    """A service whose state folder is a disk of 8 MB of its own."""
    site = make_site(quick(retention={"min_free_mb": 1}))
    disk = site.project.root / ".opsctl"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m,mode=700", "none", str(disk))
    try:
        site.good("deploy")
        yield site
        (disk / "ballast").unlink(missing_ok=True)
        site.good("down", "--yes")
    finally:
        unmount(disk)


def test_a_state_folder_that_is_read_only_is_refused_and_the_old_release_serves(
    site: Site,
) -> None:
    before = site.pids("r1")
    with site.users(), read_only(site.state):
        result = site.deploy()
        resumed = site.run("resume")
    for refused in (result, resumed):
        assert refused.exit_code == 30, refused.stderr
        error = refused.data["error"]
        assert error["what"] == f"cannot write the state folder {site.state}"
        assert error["why"] in ("Read-only file system", "Permission denied")
        assert "local.state_dir" in error["next_step"]
        assert refused.data["serving_release"] == "r1"
    assert site.pids("r1") == before
    assert site.deploy().data["serving_release"] == "r2"


def test_a_file_of_the_project_that_cannot_be_read_is_refused_and_nothing_is_touched(
    site: Site,
) -> None:
    before = (site.records(), site.pids("r1"))
    # As root may read all files, one that the kernel itself lets nobody read from its start on.
    refused = site.with_options(bench={"requests_file": "/proc/self/mem"}).deploy()
    assert (refused.exit_code, refused.data["serving_release"]) == (4, "r1"), refused.stderr
    assert refused.data["error"]["what"] == "cannot read /proc/self/mem"
    assert (site.records(), site.pids("r1")) == before


@ROOT_ONLY
def test_a_disk_that_is_full_from_the_start_refuses_a_deploy_with_nothing_touched(
    on_a_small_disk: Site,
) -> None:
    site = on_a_small_disk
    before = site.pids("r1")
    fill(site.project.root / ".opsctl")
    with site.users():
        result = site.deploy()
    assert result.exit_code in (4, 5, 30), result.stderr
    message = f"{result.data.get('error') or result.data['reason']}"
    assert "disk space" in message or "No space left on device" in message
    assert site.pids("r1") == before
    (site.project.root / ".opsctl" / "ballast").unlink()
    assert site.deploy().exit_code == 0


@ROOT_ONLY
def test_a_disk_that_gets_full_in_the_middle_of_a_rollout_gives_the_old_release_back(
    on_a_small_disk: Site,
) -> None:
    site = on_a_small_disk
    before = site.pids("r1")
    hook = {"when": "before", "step": "smoke", "run": ["sh", "-c", FILL_UP]}
    text = site.project.config.read_text()
    site.change(Candidate("code"))
    config = yaml.safe_load(site.project.config.read_text())
    config["services"]["light"]["hooks"] = [hook]
    site.project.config.write_text(yaml.safe_dump(config))
    with site.users() as users:
        result = site.run("deploy")
    assert (result.exit_code, result.data["outcome"]) == (10, "rolled_back"), result.stderr
    assert "the disk is full" in result.data["reason"]
    assert "Free disk space" in result.data["next_step"]
    # The last page of the file takes a record or two more, so a canary may still begin.
    assert users.releases <= {"r1", "r2"}
    assert site.pids("r1") == before
    assert site.pids("r2") == {}
    (site.project.root / ".opsctl" / "ballast").unlink()
    site.project.config.write_text(text)
    assert site.deploy().exit_code == 0


FILL_UP = "dd if=/dev/zero of=.opsctl/ballast bs=4096 2>/dev/null; true"


def fill(folder: Path) -> None:
    """Leave no byte free."""
    with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


def test_two_deploys_at_once_never_both_work(make_site: MakeSite) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users():
        first = site.begin_deploy()
        second = site.run("deploy")
        assert second.exit_code == 21
        assert second.data["error"]["type"] == "LockHeld"
        assert f"pid {first.process.pid}" in second.data["error"]["what"]
        assert "--lock-wait" in second.data["error"]["next_step"]
        third = site.run("deploy", "--lock-wait", "60")
        assert first.end() == 0
    assert (third.exit_code, third.data["outcome"]) == (0, "unchanged")
    opened = [r["data"]["candidate"] for r in site.records() if r["kind"] == "opened"]
    assert opened == ["r1", "r2"]


@pytest.mark.long
def test_a_frozen_command_that_wakes_after_another_took_over_changes_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users():
        frozen = site.begin_deploy()
        site.wait_for_traffic("r2")
        frozen.signal(signal.SIGSTOP)
        wait_until(lambda: site.status()["observed"]["guarded"], "the guard acted")
        assert site.answers(10) == {"r1": 10}
        taker = site.run("deploy", "--lock-wait", "30")
        assert (taker.exit_code, taker.data["serving_release"]) == (0, "r2"), taker.stderr
        records, pids = site.records(), site.pids("r2")
        frozen.signal(signal.SIGCONT)
        assert frozen.end() == 22, frozen.output
        # By the lock, or by the supervisor that it asks first.
        assert re.search(r"another opsctl took|epoch \d+ took over", frozen.output)
    assert site.records() == records
    assert site.pids("r2") == pids
    assert site.answers(10) == {"r2": 10}
    assert site.status()["holder"] is None


CLOCK = """
import os, time
_now, _shift = time.time, float(os.environ.get("TEST_CLOCK_SHIFT_S", "0"))
time.time = lambda: _now() + _shift
"""


@pytest.mark.long
@pytest.mark.parametrize("shift_s", ["-86400", "86400"])
def test_a_clock_that_is_set_back_or_forward_harms_nothing(
    make_site: MakeSite, shift_s: str
) -> None:
    site = make_site()
    site.good("deploy")
    shim = site.home / "clock"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(CLOCK)
    env = {"PYTHONPATH": f"{shim}:{os.getcwd()}", "TEST_CLOCK_SHIFT_S": shift_s}
    with site.users() as users:
        shifted = site.deploy(None, **env)
        after = site.deploy()
        back = site.run("rollback")
    assert (shifted.exit_code, after.exit_code, back.exit_code) == (0, 0, 0)
    assert users.releases == {"r1", "r2", "r3"}
    assert site.serving == "r2"
    times = [record["time"] for record in site.records()]
    jumps = [b - a for a, b in itertools.pairwise(times) if abs(b - a) > 3600]
    assert [round(jump / 86400) for jump in jumps] in ([-1, 1], [1, -1])
    assert site.report(shifted)["duration_s"] >= 0
    assert [r["rollout"] for r in site.good("history").data["rollouts"]] == [4, 3, 2, 1]


@pytest.mark.long
def test_a_supervisor_that_does_not_answer_is_unreachable_and_nothing_is_touched(
    site: Site,
) -> None:
    [pid] = [p for p, line in site.processes().items() if SUPERVISOR.match(line)]
    os.kill(pid, signal.SIGSTOP)
    try:
        looked = site.run("status")
        site.change(Candidate("code"))
        deployed, back = site.run("deploy"), site.run("rollback")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (looked.exit_code, looked.data["serving_release"]) == (30, "r1")
    assert (deployed.exit_code, back.exit_code) == (30, 30)
    assert len(site.newest_records()) == len(site.records())
    assert site.good("deploy").data["serving_release"] == "r2"


@pytest.mark.long
def test_a_serving_release_whose_files_are_lost_can_be_deployed_over(site: Site) -> None:
    shutil.rmtree(site.state / "releases" / "r1")
    with site.users() as users:
        assert site.run("plan", "--exit-code").exit_code == 3
        assert site.deploy().exit_code == 0
    assert (site.serving, users.releases) == ("r2", {"r1", "r2"})
