"""A shortened form of each campaign, with the seed that the header of the test run names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from opsctl import shell
from tests.docker.fixtures import host as host

ROOT = Path(__file__).parents[2]
CAMPAIGN_MAX_S = 1200

pytestmark = [pytest.mark.long, pytest.mark.timeout(CAMPAIGN_MAX_S + 60)]


def campaign(
    name: str, runs: int, seed: int, folder: Path, *, timed: bool = False
) -> dict[str, Any]:
    """The summary of a campaign; its bad runs are the test's failure message.

    A `timed` one measures how fast we are. That is judged on a quiet machine, by running the
    campaign itself; here each of its runs must go right, however long it takes.
    """
    out = folder / "records.jsonl"
    done = shell.run(
        [
            *(sys.executable, "-m", "scripts.campaigns", name),
            *("--seed", str(seed), "--runs", str(runs), "--out", str(out)),
        ],
        timeout_s=CAMPAIGN_MAX_S,
        cwd=ROOT,
    )
    assert out.exists(), f"no run was made: {done.stderr}\n{done.stdout}"
    records = [json.loads(line) for line in out.read_text().splitlines() if line]
    bad = [record for record in records if not record["ok"]]
    assert bad == [] and (timed or done.exit_code == 0), f"{done.stderr}\n{done.stdout}"
    summary: dict[str, Any] = json.loads(done.stdout)
    assert (summary["runs"], summary["failed"], summary.get("orphans", [])) == (runs, [], [])
    return summary


def test_deploys_under_load_fail_no_request(seed: int, tmp_path: Path) -> None:
    assert campaign("deploys", 8, seed, tmp_path)["failed_requests"] == 0


def test_kills_change_no_end_state(seed: int, tmp_path: Path) -> None:
    assert campaign("kills", 20, seed, tmp_path)["failed_requests"] == 0


@pytest.mark.docker
@pytest.mark.usefixtures("host")
def test_deploys_on_docker_fail_no_request(seed: int, tmp_path: Path) -> None:
    assert campaign("docker_deploys", 2, seed, tmp_path)["failed_requests"] == 0


@pytest.mark.docker
@pytest.mark.usefixtures("host")
def test_kills_on_docker_change_no_end_state(seed: int, tmp_path: Path) -> None:
    assert campaign("docker_kills", 2, seed, tmp_path)["failed_requests"] == 0


@pytest.mark.docker
@pytest.mark.usefixtures("host")
def test_rollbacks_on_docker_go_right(seed: int, tmp_path: Path) -> None:
    summary = campaign("docker_rollback", 2, seed, tmp_path, timed=True)
    assert summary["failed_requests"] == 0


def test_rollbacks_go_right(seed: int, tmp_path: Path) -> None:
    assert campaign("rollback", 4, seed, tmp_path, timed=True)["warm_s_median"] > 0


def test_light_commands_are_measured(seed: int, tmp_path: Path) -> None:
    times = campaign("startup", 6, seed, tmp_path, timed=True)["times_baseline"]
    assert {name: times[name] > 1 for name in ("--help", "version", "status")} == {
        "--help": True, "version": True, "status": True
    }  # fmt: skip


def test_the_cost_of_the_journal_is_measured(seed: int, tmp_path: Path) -> None:
    assert campaign("journal", 4, seed, tmp_path, timed=True)["own_ms_median"] > 0


def test_mutated_configurations_are_refused(seed: int, tmp_path: Path) -> None:
    assert campaign("config", 84, seed, tmp_path)["failed"] == []
