"""What programs and CI read: JSON, events, annotations, exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opsctl import errors
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick

WRONG = Candidate("wrong_value", 10, {"value_error": 1e-3})

EXIT_CODES = {
    "OpsctlError": 1,
    "ConfigError": 2,
    "PreflightRefused": 4,
    "BuildFailed": 5,
    "CandidateFailed": 10,
    "HookFailed": 10,
    "RollbackFailed": 11,
    "HealthFailed": 13,
    "SmokeFailed": 13,
    "GateFailed": 14,
    "GateUndecided": 15,
    "WaitingForPerson": 20,
    "LockHeld": 21,
    "Superseded": 22,
    "Aborted": 23,
    "TimedOut": 24,
    "TargetUnreachable": 30,
    "JournalBroken": 1,
    "RequestArrived": 1,
    "Interrupted": 130,
}
"""The table that scripts of users rely on: a code here never changes its meaning."""


def events(text: str) -> list[dict[str, Any]]:
    """The objects of an ndjson output."""
    return [json.loads(line) for line in text.splitlines()]


def ending(object_: dict[str, Any]) -> tuple[object, ...]:
    """The three words that each last object has."""
    return object_["outcome"], object_["exit_code"], object_["serving_release"]


def test_the_exit_codes_of_all_errors_are_frozen() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.OpsctlError)
    ]
    assert {c.__name__: c.exit_code for c in classes} == EXIT_CODES
    assert errors.Interrupted(15).signal_exit_code == 143


def test_help_explains_each_exit_code(standing: Site) -> None:
    text = standing.text("--help")
    codes = {*EXIT_CODES.values(), 0, 12, 143} - {1}
    assert [code for code in sorted(codes) if f"{code}" not in text.split("exit codes:")[1]] == []


def test_ndjson_is_one_object_a_line_and_the_last_has_the_outcome(standing: Site) -> None:
    standing.change(Candidate("code"))
    done = standing.raw("deploy", "-o", "ndjson")
    lines = events(done.stdout)
    serving = standing.serving
    assert ending(lines[-1]) == ("deployed", 0, serving)
    assert lines[-1]["event"] == "result"
    ended = [line["title"] for line in lines if line["event"] == "step_ended"]
    assert ended[0] == "check that nothing stands against it"
    assert len(ended) == len([line for line in lines if line["event"] == "step_began"])
    standing.change(WRONG)
    refused = standing.raw("deploy", "-o", "ndjson")
    assert refused.exit_code == 10
    assert ending(events(refused.stdout)[-1]) == ("rolled_back", 10, serving)


def test_json_is_one_object_also_when_a_command_fails(standing: Site) -> None:
    serving = standing.serving
    again = standing.raw("deploy", "-o", "json")
    standing.change(WRONG)
    refused = standing.raw("deploy", "-o", "json")
    nothing = standing.raw("rollback", "r99", "-o", "json")
    assert ending(json.loads(refused.stdout)) == ("rolled_back", 10, serving)
    failed = json.loads(nothing.stdout)
    assert ending(failed) == ("error", 2, serving)
    assert failed["error"]["what"] == 'there is no release "r99"'
    assert again.exit_code in (0, 10)
    assert json.loads(again.stdout)["serving_release"] == serving


@pytest.mark.parametrize(
    "command",
    [
        ["status"], ["history"], ["audit"], ["health"], ["smoke"], ["plan"], ["releases", "list"],
        ["releases", "prune", "--dry-run"], ["lock", "status"], ["config", "validate"],
        ["config", "show"], ["config", "schema"], ["version"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_that_looks_gives_one_json_object(standing: Site, command: list[str]) -> None:
    done = standing.raw(*command, "-o", "json")
    assert done.exit_code == 0, done.stderr
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    assert data.get("exit_code", 0) == 0
    lines = events(standing.raw(*command, "-o", "ndjson").stdout)
    assert lines[-1]["event"] == "result"


def test_text_for_people_says_outcome_reason_and_next_step(standing: Site) -> None:
    serving = standing.serving
    standing.change(WRONG)
    done = standing.raw("deploy")
    first, because, next_step, report = done.stdout.splitlines()[:4]
    assert first.startswith(f"rolled_back: {serving} serves (rollout ")
    assert because.startswith("because smoke failed: 1 of 2 smoke tests")
    assert next_step.startswith("next: ")
    assert report.startswith(f"report: {standing.state}")


def test_under_github_actions_errors_and_warnings_are_annotations(standing: Site) -> None:
    standing.change(WRONG)
    done = standing.raw("deploy", GITHUB_ACTIONS="true")
    assert done.exit_code == 10
    lines = done.stderr.splitlines()
    assert [x for x in lines if x.startswith("::warning title=opsctl::gate.enabled is false")]
    wrong = [x for x in lines if x.startswith("::error title=opsctl::")]
    assert len(wrong) == 1
    assert "predictions.0.0: expected" in wrong[0]
    config = standing.project.config.read_text()
    standing.project.config.write_text(config.replace("replicas: 1", "replicas: many"))
    broken = standing.raw("deploy", GITHUB_ACTIONS="true")
    standing.project.config.write_text(config)
    assert broken.exit_code == 2
    line = config[: config.index("replicas: 1")].count("\n") + 1
    assert f"::error file=opsctl.yaml,line={line},title=opsctl::" in broken.stderr


def test_a_command_that_needs_an_answer_asks_nothing_without_a_terminal(standing: Site) -> None:
    done = standing.raw("down")
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert standing.serving is not None


def test_a_dry_run_of_a_deploy_changes_nothing(make_site: MakeSite) -> None:
    site = make_site(quick())
    planned = site.good("deploy", "--dry-run")
    assert [s["id"] for s in planned.data["steps"]][:3] == ["preflight", "build", "start"]
    assert not site.state.exists()
    site.good("deploy")
    assert site.raw("plan", "--exit-code").exit_code == 0
    site.change(Candidate("code"))
    assert site.raw("plan", "--exit-code").exit_code == 3
