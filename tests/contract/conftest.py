"""The stages that the contract tests run on: add a target here and it must pass them all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.docker_stage import DockerStage
from tests.contract.local_stage import LocalStage
from tests.contract.stage import Holder, Stage
from tests.docker.bench_yard import FIRST_TIME_MAX_S

STAGES = (
    pytest.param(LocalStage, id="local"),
    pytest.param(
        DockerStage,
        id="docker",
        marks=[pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)],
    ),
)


class Standing:
    """A service that stands for the tests of a module: bringing one up on Docker takes seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: DockerStage | None = None
        self._count = 0

    def take(self) -> DockerStage:
        """The service, with nothing running and nothing kept."""
        if self._made is None:
            self._count += 1
            self._made = DockerStage(self._folder / str(self._count))
        return self._made

    def give_back(self) -> None:
        """Empty it for the next test; one that can't be emptied is nobody's any more."""
        made, self._made = self.take(), None
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(made.clear)
            made.empty()
            on_failure.pop_all()
        self._made = made

    def clear(self) -> None:
        """Leave nothing."""
        if self._made is not None:
            self._made.clear()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    made = Standing(tmp_path_factory.mktemp("standing"))
    yield made
    made.clear()


@pytest.fixture(params=STAGES)
def new_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage that nobody has used."""
    made = request.param(tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path: Path, standing: Standing) -> Iterator[Stage]:
    """A stage where nothing runs; its epochs and its log may be an earlier test's."""
    if request.param is DockerStage:
        yield standing.take()
        standing.give_back()
        return
    made = request.param(tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture
def holder(stage: Stage) -> Holder:
    return Holder(stage)
