"""The stages that the contract tests run on: add a target here and it must pass them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

from tests.cluster.fixtures import cluster as cluster
from tests.contract.docker_stage import DockerStage
from tests.contract.kube_stage import KubeStage, app_image
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
    pytest.param(
        KubeStage,
        id="kubernetes",
        marks=[pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)],
    ),
)


@pytest.fixture(scope="session")
def contract_image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The test application in the cluster's registry."""
    cluster = request.getfixturevalue("cluster")
    return app_image(cluster, tmp_path_factory.mktemp("contract") / "root")


def opened(request: pytest.FixtureRequest, folder: Path) -> Stage:
    """A stage of the kind that the test is run on."""
    kind: Callable[..., Stage] = request.param
    if request.param is not KubeStage:
        return kind(folder)
    cluster = request.getfixturevalue("cluster")
    return kind(cluster, request.getfixturevalue("contract_image"), folder)


class EmptiedStage(Stage, Protocol):
    """A stage that can be used again."""

    def empty(self) -> None:
        """Take everything down, and leave what the next test needs."""


class Standing:
    """A service that stands for the tests of a module: bringing up one that is not of this
    machine's processes takes seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: EmptiedStage | None = None
        self._count = 0

    def take(self, request: pytest.FixtureRequest) -> EmptiedStage:
        """The service, with nothing running and nothing kept."""
        if self._made is not None and type(self._made) is not request.param:
            self.clear()
        if self._made is None:
            self._count += 1
            self._made = cast(EmptiedStage, opened(request, self._folder / str(self._count)))
        return self._made

    def give_back(self) -> None:
        """Empty it for the next test; one that can't be emptied is nobody's any more."""
        made, self._made = self._made, None
        assert made is not None
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(made.clear)
            made.empty()
            on_failure.pop_all()
        self._made = made

    def clear(self) -> None:
        """Leave nothing."""
        made, self._made = self._made, None
        if made is not None:
            made.clear()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    made = Standing(tmp_path_factory.mktemp("standing"))
    yield made
    made.clear()


@pytest.fixture
def reach(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process and its Helm reach the cluster, where the test is on one."""
    if request.node.callspec.id.startswith("kubernetes"):
        cluster = request.getfixturevalue("cluster")
        monkeypatch.setenv("KUBECONFIG", cluster.variables["KUBECONFIG"])


@pytest.fixture(params=STAGES)
def new_stage(request: pytest.FixtureRequest, tmp_path: Path, reach: None) -> Iterator[Stage]:
    """A stage that nobody has used."""
    made = opened(request, tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture(params=STAGES)
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, standing: Standing, reach: None
) -> Iterator[Stage]:
    """A stage where nothing runs; its epochs and its log may be an earlier test's."""
    if request.param is not LocalStage:
        yield standing.take(request)
        standing.give_back()
        return
    made = opened(request, tmp_path / "project")
    yield made
    made.clear()


@pytest.fixture
def holder(stage: Stage) -> Holder:
    return Holder(stage)
