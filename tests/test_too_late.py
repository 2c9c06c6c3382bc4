"""An abort whose request met a rollout at its very end."""

from __future__ import annotations

from typing import Any

import pytest

from opsctl.commands import rollout
from opsctl.commands.outcome import simple


@pytest.mark.parametrize(
    ("ended", "exit_code", "outcome"),
    [("deployed", 4, "too_late"), ("aborted", 0, "aborted"), ("rolled_back", 0, "rolled_back")],
)
def test_an_abort_is_a_success_only_when_the_candidate_was_taken_back(
    monkeypatch: pytest.MonkeyPatch, ended: str, exit_code: int, outcome: str
) -> None:
    monkeypatch.setattr(rollout, "withdraw", lambda *_: simple(ended, "", serving_release="r2"))
    nobody: Any = None
    done = rollout.abort(nobody, nobody, nobody, "")
    assert (done.exit_code, done.data["outcome"]) == (exit_code, outcome)
    assert done.data["serving_release"] == "r2"
