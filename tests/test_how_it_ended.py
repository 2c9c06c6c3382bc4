"""What a command says of how a rollout ended."""

from __future__ import annotations

from typing import Any

import pytest

from opsctl.commands import rollout
from opsctl.commands.outcome import simple
from opsctl.model import DesiredState
from opsctl.rollout import Progress


@pytest.mark.parametrize(
    ("ended", "exit_code", "outcome"),
    [("deployed", 4, "too_late"), ("aborted", 0, "aborted"), ("rolled_back", 0, "rolled_back")],
)
def test_an_abort_is_a_success_only_when_the_candidate_was_taken_back(
    monkeypatch: pytest.MonkeyPatch, ended: str, exit_code: int, outcome: str
) -> None:
    monkeypatch.setattr(rollout, "reader", lambda project: None)
    monkeypatch.setattr(rollout, "withdraw", lambda *_: simple(ended, "", serving_release="r2"))
    nobody: Any = None
    done = rollout.abort(nobody, nobody, nobody, "")
    assert (done.exit_code, done.data["outcome"]) == (exit_code, outcome)
    assert done.data["serving_release"] == "r2"


@pytest.mark.parametrize(
    ("op", "outcome", "said"),
    [
        ("deploy", "deployed", "deployed"),
        ("restore", "deployed", "brought back"),
        ("restore", "aborted", "aborted"),
    ],
)
def test_a_resume_that_only_brought_back_what_served_does_not_say_that_it_deployed(
    op: str, outcome: str, said: str
) -> None:
    closed = {"outcome": outcome, "exit_code": 0, "serving_release": "r2", "reason": ""}
    progress = Progress(7, op, "r2", "r2", DesiredState(), (), {}, closed=closed)
    done = rollout.of_rollout(progress)
    assert done.text == f"{said}: r2 serves (rollout 7)"
    assert done.data["outcome"] == outcome
