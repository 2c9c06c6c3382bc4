"""This machine's engine for tests in this folder, and a service on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.docker_stage import DockerStage
from tests.contract.stage import Holder
from tests.docker.fixtures import host as host


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerStage]:
    """A service that stands for all tests of this module."""
    stage = DockerStage(tmp_path_factory.mktemp("standing"))
    yield stage
    stage.clear()


@pytest.fixture
def stage(standing: DockerStage) -> DockerStage:
    return standing


@pytest.fixture
def holder(stage: DockerStage) -> Holder:
    """Somebody newer than whoever was in charge before."""
    return Holder(stage, epoch=stage.target.observe().stamp.epoch + 1)
