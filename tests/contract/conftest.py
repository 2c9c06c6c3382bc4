"""The stages that the contract tests run on: add a target here and it must pass them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.local_stage import LocalStage
from tests.contract.stage import Holder, Stage

STAGES = {"local": LocalStage}


@pytest.fixture(params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture
def holder(stage: Stage) -> Holder:
    return Holder(stage)
