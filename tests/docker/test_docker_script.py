"""`scripts/docker`: what it started stays, whoever asks for it again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATE = Path("/run/opsctl-docker")


def script(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "docker", *words], capture_output=True, text=True, check=False,
        env={**os.environ, **environment}, timeout=600,
    )  # fmt: skip


@pytest.mark.docker
@pytest.mark.long
def test_a_second_up_starts_nothing_and_gives_the_same_places() -> None:
    before = script("env")
    if before.returncode != 0 or os.geteuid() != 0:
        pytest.skip("nothing is up that scripts/docker started")
    pids = {path.name: path.read_text() for path in STATE.glob("*.pid")}
    again = script("up", "--no-buildkit")
    assert (again.returncode, again.stdout) == (0, "")
    assert {path.name: path.read_text() for path in STATE.glob("*.pid")} == pids
    assert script("env").stdout == before.stdout


def test_env_without_anything_up_says_what_to_run(tmp_path: Path) -> None:
    asked = script("env", OPSCTL_DOCKER_STATE=str(tmp_path))
    assert (asked.returncode, asked.stderr) == (1, "Nothing is up. Run: scripts/docker up\n")


@pytest.mark.parametrize("words", [[], ["start"], ["up", "--now"]])
def test_a_wrong_word_shows_the_usage_and_touches_nothing(tmp_path: Path, words: list[str]) -> None:
    asked = script(*words, OPSCTL_DOCKER_STATE=str(tmp_path / "state"))
    assert asked.returncode == 2
    assert "scripts/docker up " in asked.stderr
    assert not (tmp_path / "state").exists()


def test_a_machine_where_nothing_was_started_is_down(tmp_path: Path) -> None:
    asked = script("status", OPSCTL_DOCKER_STATE=str(tmp_path), DOCKER_HOST="unix:///nowhere.sock")
    assert asked.returncode == 3
    assert [line.split() for line in asked.stdout.splitlines()] == [
        ["engine", "down"], ["registry", "down"], ["buildkit", "down"],
    ]  # fmt: skip
