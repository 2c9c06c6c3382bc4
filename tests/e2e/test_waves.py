"""`deploy -e staging,production`: in order, with a soak time, up to the first failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.campaigns._opsctl import Opsctl, end_leftovers
from tests.apps.processes import wait_until
from tests.apps.project import CANDIDATES, SERVICE, LightProject, free_port, write
from tests.e2e.site import quick

BOTH = "staging,production"
WAIT_S = 60.0


class Company:
    """A project with two environments on this machine."""

    def __init__(self, root: Path) -> None:
        self.project: LightProject = write(root, quick())
        self.ports = {"staging": free_port(), "production": free_port()}
        self.change("code", 0)

    @property
    def opsctl(self) -> Opsctl:
        return Opsctl(self.project)

    def change(self, kind: str, serial: int) -> None:
        """Another candidate, with both environments in opsctl.yaml."""
        self.project.change(CANDIDATES[kind], serial)
        data = yaml.safe_load(self.project.config.read_text())
        data["environments"] = {
            name: {
                "target": "local",
                "overrides": {
                    SERVICE: {"local": {"port": port, "replica_ports": [20000 + at, 20099 + at]}}
                },
            }
            for at, (name, port) in zip((0, 100), self.ports.items(), strict=True)
        }
        self.project.config.write_text(yaml.safe_dump(data, sort_keys=False))

    def serving(self, environment: str) -> str | None:
        """The release that serves in an environment."""
        found: str | None = self.opsctl.run("status", "-e", environment).data["serving_release"]
        return found

    def down(self) -> None:
        """Leave nothing."""
        for name in self.ports:
            self.opsctl.run("down", "--yes", "-e", name)
        end_leftovers(self.project.root)


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    made = Company(tmp_path / "project")
    yield made
    made.down()


def rows(data: Any) -> list[tuple[str, str, int]]:
    return [(row["environment"], row["outcome"], row["exit_code"]) for row in data["environments"]]


def test_each_environment_gets_the_same_content_in_order(company: Company) -> None:
    done = company.opsctl.run("deploy", "-e", BOTH, "--soak", "1")
    assert done.exit_code == 0, done.stderr
    assert rows(done.data) == [("staging", "deployed", 0), ("production", "deployed", 0)]
    assert "staging is watched for 1 s" in done.stderr
    assert [company.serving(name) for name in company.ports] == ["r1", "r1"]
    again = company.opsctl.run("deploy", "-e", BOTH)
    assert rows(again.data) == [("staging", "unchanged", 0), ("production", "unchanged", 0)]


def test_the_environments_after_one_that_refuses_are_not_touched(company: Company) -> None:
    assert company.opsctl.run("deploy", "-e", BOTH).exit_code == 0
    company.change("wrong_value", 2)
    done = company.opsctl.run("deploy", "-e", BOTH)
    assert done.exit_code == 10
    assert rows(done.data) == [("staging", "rolled_back", 10)]
    assert done.data["not_begun"] == ["production"]
    history = company.opsctl.run("history", "-e", "production").data["rollouts"]
    assert len(history) == 1


def test_one_that_does_not_stay_well_for_its_soak_time_is_the_last(company: Company) -> None:
    log = company.project.root / "waves.log"
    process = company.opsctl.spawn(log, "deploy", "-e", BOTH, "--soak", "600")
    wait_until(lambda: "is watched for" in log.read_text(), "the soak time began", WAIT_S)
    assert company.opsctl.run("down", "--yes", "-e", "staging").exit_code == 0
    assert process.wait(WAIT_S) == 13
    told = json.loads(log.read_text()[log.read_text().index("{") :])
    assert rows(told) == [("staging", "unhealthy", 13)]
    assert told["not_begun"] == ["production"]
    assert "no release serves" in told["environments"][0]["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-e", "staging,nowhere"], "nowhere"),
        (["-e", "staging,staging"], "each once"),
        (["-e", "staging,"], "each once"),
        (["-e", "staging", "--soak", "5"], "--soak"),
    ],
)
def test_wrong_words_touch_nothing(company: Company, words: list[str], said: str) -> None:
    done = company.opsctl.run("deploy", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (company.project.root / ".opsctl").exists()
