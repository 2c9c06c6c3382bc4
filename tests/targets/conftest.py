"""Fixtures with real processes; whatever a test starts is gone after it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.targets.supervisor import procfs
from tests.targets.front import Front
from tests.targets.house import House, project_in


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes services; each is taken down after the test, by force where need be."""
    made: list[House] = []

    def make(folder: str = "p", name: str = "svc", **local: Any) -> House:
        made.append(House(project_in(tmp_path / folder, name, **local)))
        return made[-1]

    yield make
    for house in made:
        # The keeper has the lowest pid as a rule, but it may be starting a supervisor just now.
        while pids := house.processes():
            for pid in sorted(pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


@pytest.fixture
def house(make_house: Callable[..., House]) -> House:
    return make_house()


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    before = Path.cwd()
    made = Front(tmp_path / "svc")
    yield made
    os.chdir(before)
    for pid in procfs.marked(made.layout.service_dir):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
