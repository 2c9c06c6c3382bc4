"""Start at boot: what is written, and that it is taken away again."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.model import Share
from opsctl.targets import boot
from tests.targets.house import House, project_in

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
"""
CRONTAB = """#!/bin/sh
case $1 in
-l) [ -f "$TAB" ] && cat "$TAB" ;;
-) cat > "$TAB" ;;
esac
"""


def tool(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is all of PATH but the system's own basics."""
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("TAB", str(tmp_path / "tab"))
    monkeypatch.setattr(boot, "SYSTEMD_RUNS", tmp_path / "no-systemd")
    monkeypatch.setattr(boot, "SYSTEM_UNITS", tmp_path / "units")
    return tmp_path


def test_with_systemd_a_unit_is_enabled_once_and_removed(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "SYSTEMD_RUNS", tools)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tools / "config"))
    tool(tools / "tools", "systemctl", SYSTEMCTL)
    tool(tools / "tools", "loginctl", SYSTEMCTL)
    project = project_in(tools / "a 100% folder")
    boot.keep(project, True)
    boot.keep(project, True)
    name = boot.BootEntry.of(project).name
    (unit,) = boot.unit_folder().iterdir()
    assert unit.name == f"{name}.service"
    lines = unit.read_text().splitlines()
    folder = str(project.root).replace("%", "%%")
    assert f"WorkingDirectory={folder}" in lines
    assert "Type=oneshot" in lines
    assert "KillMode=process" in lines
    assert (
        f'ExecStart="{sys.executable}" "-m" "opsctl.cli" "resume" "-c" "{folder}/opsctl.yaml"'
        ' "-e" "test" "--service" "svc"'
    ) in lines
    boot.keep(project, False)
    boot.keep(project, False)
    assert list(boot.unit_folder().iterdir()) == []
    scope = "" if os.geteuid() == 0 else "--user "
    calls = [c for c in (tools / "calls").read_text().splitlines() if "linger" not in c]
    assert calls == [
        f"{scope}daemon-reload",
        f"{scope}enable {name}.service",
        f"{scope}disable {name}.service",
        f"{scope}daemon-reload",
    ]


def test_without_systemd_a_crontab_line_is_added_once_and_removed(tools: Path) -> None:
    tool(tools / "tools", "crontab", CRONTAB)
    (tools / "tab").write_text("5 4 * * * somebody elses\n")
    project = project_in(tools / "a 100% folder")
    boot.keep(project, True)
    boot.keep(project, True)
    other, line = (tools / "tab").read_text().splitlines()
    assert other == "5 4 * * * somebody elses"
    schedule, command = line.split(" ", 1)
    assert schedule == "@reboot"
    words = shlex.split(command.replace("\\%", "%"), comments=True)
    assert words == [
        "cd", str(project.root), "&&", sys.executable, "-m", "opsctl.cli", "resume",
        "-c", str(project.path), "-e", "test", "--service", "svc",
    ]  # fmt: skip
    boot.keep(project, False)
    assert (tools / "tab").read_text() == "5 4 * * * somebody elses\n"


def test_two_services_have_entries_of_their_own(tools: Path) -> None:
    tool(tools / "tools", "crontab", CRONTAB)
    one, two = project_in(tools / "one"), project_in(tools / "two")
    boot.keep(one, True)
    boot.keep(two, True)
    boot.keep(one, False)
    (line,) = (tools / "tab").read_text().splitlines()
    assert str(two.path) in line


def test_a_machine_that_offers_no_way_is_told(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools / "tools"))
    project = project_in(tools / "p")
    boot.keep(project, False)  # nothing is wanted, so nothing is missing
    with pytest.raises(TargetUnreachable, match="neither systemd nor crontab") as caught:
        boot.keep(project, True)
    assert "opsctl.cli resume -c" in caught.value.next_step


def test_down_takes_the_entry_away(tools: Path, make_house: Callable[..., House]) -> None:
    tool(tools / "tools", "crontab", CRONTAB)
    house = make_house(start_at_boot=True)
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    assert len((tools / "tab").read_text().splitlines()) == 1
    house.target.down(1)
    assert (tools / "tab").read_text() == ""
