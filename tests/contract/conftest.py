"""The stages that the contract tests run on: add a target here and it must pass them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.docker_stage import DockerStage
from tests.contract.local_stage import LocalStage
from tests.contract.stage import Holder, Stage

STAGES = (
    pytest.param(LocalStage, id="local"),
    pytest.param(DockerStage, id="docker", marks=[pytest.mark.docker, pytest.mark.long]),
)


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = request.param(tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture
def holder(stage: Stage) -> Holder:
    return Holder(stage)
