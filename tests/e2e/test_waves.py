"""`deploy` of several environments and services: in order, watched, stopped by a failure."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apps.processes import wait_until
from tests.apps.project import CANDIDATES, LightProject, merged, write
from tests.e2e.site import SETTLE_MAX_S, quick

SOAK_S = 12.0
"""Longer than a busy machine takes from the end of a rollout to the end of its command."""


@dataclass(frozen=True)
class Row:
    """What a wave says of one service in one environment."""

    where: str
    outcome: str
    exit_code: int | None


@dataclass
class Fleet:
    """One opsctl.yaml with several environments and services on this machine."""

    project: LightProject

    @property
    def root(self) -> Path:
        return self.project.root

    def configure(
        self,
        environments: Mapping[str, Mapping[str, Any]],
        services: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Write opsctl.yaml: the light service under each name, with these changes."""
        config = yaml.safe_load(self.project.config.read_text())
        light = merged(next(iter(config["services"].values())), {"local": {"port": "auto"}})
        named = services or {"web": {}}
        config["services"] = {name: merged(light, change) for name, change in named.items()}
        config["environments"] = {name: dict(one) for name, one in environments.items()}
        self.project.config.write_text(yaml.safe_dump(config, sort_keys=False))

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "opsctl.cli", *words, "-o", "json"]

    def run(self, *words: str, exit_code: int = 0) -> dict[str, Any]:
        """Run a command to its end; the object that it prints."""
        done = subprocess.run(
            self.argv(*words), cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return {**json.loads(done.stdout), "stderr": done.stderr}

    def deploy(self, *words: str, exit_code: int = 0) -> tuple[list[Row], dict[str, Any]]:
        """Run a wave: its rows, and all that it said."""
        said = self.run("deploy", *words, exit_code=exit_code)
        assert said["exit_code"] == exit_code
        rows = [
            Row(f"{row['environment']}/{row['service']}", row["outcome"], row["exit_code"])
            for row in said["deploys"]
        ]
        return rows, said

    def serving(self, environment: str, service: str = "web") -> str | None:
        found: str | None = self.run("status", "-e", environment, "--service", service)[
            "serving_release"
        ]
        return found

    def times(self, environment: str, service: str) -> tuple[float, float]:
        """When the only rollout of a service was opened and closed."""
        (path,) = (self.root / ".opsctl" / environment / service / "journal").glob("[0-9]*.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return records[0]["time"], records[-1]["time"]

    def close(self) -> None:
        for folder in (self.root / ".opsctl").glob("*/*"):
            if (folder / "run").exists():
                self.run("down", "--yes", "-e", folder.parent.name, "--service", folder.name)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(write(tmp_path / "project", quick()))
    yield fleet
    fleet.close()


@pytest.mark.long
def test_environments_are_deployed_in_the_order_given_and_watched_in_between(fleet: Fleet) -> None:
    fleet.configure({"staging": {"soak_s": SOAK_S}, "prod-a": {}, "prod-b": {}})
    rows, said = fleet.deploy("-e", "prod-a,staging,prod-b")
    assert rows == [
        Row("prod-a/web", "deployed", 0),
        Row("staging/web", "deployed", 0),
        Row("prod-b/web", "deployed", 0),
    ]
    assert said["outcome"] == "deployed"
    told = [line for line in said["stderr"].splitlines() if "before the next begins" in line]
    assert len(told) == 1
    assert re.fullmatch(r"staging/web: watched for \d+ s before the next begins", told[0])
    assert fleet.times("prod-b", "web")[0] >= fleet.times("staging", "web")[1] + SOAK_S
    assert {fleet.serving(name) for name in ("staging", "prod-a", "prod-b")} == {"r1"}

    again, said = fleet.deploy("-e", "prod-a,staging,prod-b")
    assert [row.outcome for row in again] == ["unchanged"] * 3
    assert said["outcome"] == "unchanged"
    assert "before the next begins" not in said["stderr"]  # it has served for long enough


@pytest.mark.long
def test_the_first_failure_stops_the_wave_and_the_same_words_go_on(fleet: Fleet) -> None:
    bad = {"overrides": {"*": {"model": {"path": "no-such-model"}}}}
    fleet.configure({"staging": {}, "prod-a": bad, "prod-b": {}})
    rows, said = fleet.deploy("-e", "staging,prod-a,prod-b", exit_code=4)
    assert rows == [
        Row("staging/web", "deployed", 0),
        Row("prod-a/web", "error", 4),
        Row("prod-b/web", "not begun", None),
    ]
    assert (said["outcome"], said["stopped_at"]) == ("stopped", "prod-a/web")
    assert "no-such-model" in said["reason"]
    assert not (fleet.root / ".opsctl" / "prod-b").exists()

    fleet.configure({"staging": {}, "prod-a": {}, "prod-b": {}})
    rows, _ = fleet.deploy("-e", "*")
    assert rows == [
        Row("staging/web", "unchanged", 0),
        Row("prod-a/web", "deployed", 0),
        Row("prod-b/web", "deployed", 0),
    ]


@pytest.mark.long
def test_what_breaks_a_limit_while_it_is_watched_stops_the_wave(fleet: Fleet) -> None:
    (fleet.root / "app" / "fault.json").write_text(json.dumps({"dies_after_s": 5.0}))
    fleet.configure({"staging": {"soak_s": 600}, "prod": {}})
    rows, said = fleet.deploy("-e", "staging,prod", exit_code=13)
    assert rows[:1] == [Row("staging/web", "deployed", 0)]
    assert Row("staging/web", "error", 13) in rows
    assert rows[-1] == Row("prod/web", "not begun", None)
    assert said["reason"] == "r1 broke a live limit"


@pytest.mark.long
def test_a_service_comes_after_those_that_it_depends_on(fleet: Fleet) -> None:
    fleet.configure({"prod": {}}, {"web": {"depends_on": ["api"]}, "api": {}, "log": {}})
    rows, _ = fleet.deploy("--service", "*", "--jobs", "2")
    assert {row.where for row in rows} == {"prod/web", "prod/api", "prod/log"}
    assert {row.outcome for row in rows} == {"deployed"}
    assert fleet.times("prod", "web")[0] >= fleet.times("prod", "api")[1]
    assert fleet.times("prod", "log")[0] < fleet.times("prod", "api")[1]  # at the same time


@pytest.mark.long
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_what_is_under_way_in_order(
    fleet: Fleet, number: signal.Signals, exit_code: int
) -> None:
    holds = {"strategy": {"stages": [{"weight": 20, "hold_s": 60}]}}
    fleet.configure({"staging": {}, "prod": {}})
    fleet.deploy("-e", "*")
    fleet.configure({"staging": {}, "prod": {}}, {"web": holds})
    (fleet.root / "app" / "serial.txt").write_text("another\n")
    log = fleet.root / "wave.log"
    with log.open("wb") as output:
        wave = subprocess.Popen(
            fleet.argv("deploy", "-e", "*"), cwd=fleet.root, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: "20 % of traffic" in log.read_text(), "it shifts", SETTLE_MAX_S)
        os.kill(wave.pid, number)
        assert wave.wait(60) == exit_code
    finally:
        wave.kill()
        wave.wait()
    assert fleet.run("lock", "status", "-e", "staging")["outcome"] == "free"
    status = fleet.run("status", "-e", "staging")
    assert status["observed"]["weights"] == {"r1": 100}
    assert status["rollout"]["candidate"] == "r2"  # open: resume goes on
    assert fleet.run("abort", "-e", "staging")["outcome"] == "aborted"
    assert fleet.serving("prod") == "r1"


def test_what_is_not_there_is_refused_before_anything_is_touched(fleet: Fleet) -> None:
    fleet.configure({"staging": {}, "prod": {}}, {"web": {}, "api": {}})
    wrong = fleet.run("deploy", "-e", "staging,prdo", "--service", "*", exit_code=2)
    assert wrong["error"]["what"] == 'there is no environment "prdo" in opsctl.yaml'
    twice = fleet.run("deploy", "-e", "prod,prod", "--service", "web", exit_code=2)
    assert twice["error"]["what"] == '"prod" stands twice in prod,prod'
    none = fleet.run("deploy", "-e", "prod,", "--service", "web", exit_code=2)
    assert none["error"]["what"] == "a name is missing in prod,"
    circle = {"api": {"depends_on": ["web"]}, "web": {"depends_on": ["api"]}}
    fleet.configure({"staging": {}, "prod": {"overrides": circle}}, {"web": {}, "api": {}})
    round_ = fleet.run("deploy", "-e", "*", "--service", "*", exit_code=2)
    assert "in a circle in prod: " in round_["error"]["what"]
    alone = fleet.run("deploy", "-e", "prod", "--service", "web", "--soak", "5", exit_code=2)
    assert alone["error"]["what"].startswith("--soak is the time between environments")
    assert not (fleet.root / ".opsctl").exists()


@pytest.mark.long
def test_a_bad_candidate_goes_no_further_than_the_first_environment(fleet: Fleet) -> None:
    fleet.configure({"staging": {}, "prod": {}})
    fleet.deploy("-e", "*")
    fleet.project.change(CANDIDATES["wrong_value"], 2)
    fleet.configure({"staging": {}, "prod": {}})
    rows, _ = fleet.deploy("-e", "*", exit_code=10)
    assert rows == [Row("staging/web", "rolled_back", 10), Row("prod/web", "not begun", None)]
    assert fleet.serving("staging") == "r1"
    assert len(fleet.run("history", "-e", "prod")["rollouts"]) == 1


@pytest.mark.long
def test_what_is_taken_down_while_it_is_watched_stops_the_wave(fleet: Fleet) -> None:
    fleet.configure({"staging": {}, "prod": {}})
    log = fleet.root / "wave.log"
    words = fleet.argv("deploy", "-e", "*", "--soak", "600")
    with log.open("wb") as output:
        wave = subprocess.Popen(words, cwd=fleet.root, stdout=output, stderr=output)
    try:
        wait_until(lambda: "watched for" in log.read_text(), "it is watched", SETTLE_MAX_S)
        fleet.run("down", "--yes", "-e", "staging")
        assert wave.wait(60) == 13
    finally:
        wave.kill()
        wave.wait()
    assert not (fleet.root / ".opsctl" / "prod").exists()


def test_a_plan_of_several_shows_the_steps_of_each(fleet: Fleet) -> None:
    fleet.configure({"staging": {}, "prod": {}})
    for words in (("plan",), ("deploy", "--dry-run")):
        said = fleet.run(*words, "-e", "staging,prod")
        assert [(p["environment"], p["outcome"]) for p in said["plans"]] == [
            ("staging", "differences"),
            ("prod", "differences"),
        ]
        assert all(plan["steps"] for plan in said["plans"])
    assert fleet.run("plan", "-e", "*", "--exit-code", exit_code=3)["outcome"] == "differences"
    assert not list((fleet.root).glob(".opsctl/*/*/journal"))
