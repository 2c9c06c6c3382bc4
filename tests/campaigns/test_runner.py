"""scripts/campaign: seeds, records, going on after an interruption, and its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scripts.campaigns import __main__ as runner

SEED = 7


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A campaign named `deploys` whose runs only note that they were made; run 2 is not ok."""
    made: list[int] = []

    def run_one(seed: int, index: int, workdir: Path) -> dict[str, Any]:
        assert (seed, workdir.is_dir()) == (SEED, True)
        made.append(index)
        if index == 3:
            raise KeyError("a run that breaks")
        return {"ok": index != 2, "why": "" if index != 2 else "told to"}

    module = ModuleType("scripts.campaigns.deploys")
    module.RUNS = 3  # type: ignore[attr-defined]
    module.run_one = run_one  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "scripts.campaigns.deploys", module)
    return made


def run(out: Path, runs: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    arguments = ["deploys", "--seed", str(SEED), "--runs", str(runs), "--out", str(out)]
    code = runner.main(arguments)
    return code, json.loads(capsys.readouterr().out)


def test_a_campaign_with_only_good_runs_ends_with_zero(
    campaign: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, summary = run(tmp_path / "out.jsonl", 2, capsys)
    assert (code, summary["ok"], summary["failed"], campaign) == (0, True, [], [0, 1])


def test_a_campaign_names_its_bad_runs_and_ends_with_one(
    campaign: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, summary = run(tmp_path / "out.jsonl", 4, capsys)
    assert (code, summary["ok"], summary["failed"]) == (1, False, [2, 3])
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["index"] for record in records] == [0, 1, 2, 3]
    assert records[3]["why"] == "KeyError: 'a run that breaks'"


def test_a_campaign_makes_only_the_runs_that_are_missing(
    campaign: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    run(out, 1, capsys)
    other = {"campaign": "deploys", "seed": SEED + 1, "index": 1, "ok": True}
    torn = '{"campaign": "deploys", "se'
    out.write_text(out.read_text() + json.dumps(other) + "\n" + torn + "\n")
    code, summary = run(out, 2, capsys)
    assert (code, summary["runs"], campaign) == (0, 2, [0, 1])


def test_the_seed_is_new_each_time_and_printed(
    campaign: list[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.randbelow", lambda _: SEED)
    assert runner.main(["deploys", "--runs", "1", "--out", str(tmp_path / "out.jsonl")]) == 0
    assert f"seed {SEED}" in capsys.readouterr().err


def test_every_campaign_is_found_by_its_name() -> None:
    light = ["config", "deploys", "journal", "kills", "rollback", "startup"]
    real = ["real_deploys", "real_kills"]
    docker = ["docker_deploys", "docker_kills", "docker_rollback"]
    docker += ["docker_real_deploys", "docker_real_kills"]
    kube = ["kube_deploys", "kube_kills", "kube_rollback"]
    assert runner.names() == sorted([*light, *real, *docker, *kube, "same_image"])


def test_jobs_share_the_runs_and_each_is_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    arguments = ["config", "--seed", str(SEED), "--runs", "7", "--out", str(out), "--jobs", "3"]
    code = runner.main(arguments)
    summary = json.loads(capsys.readouterr().out)
    made = [json.loads(line)["index"] for line in out.read_text().splitlines()]
    assert (code, summary["runs"], sorted(made)) == (0, 7, list(range(7)))
