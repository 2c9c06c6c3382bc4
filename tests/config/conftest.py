"""Ways to read a configuration that a test wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opsctl.config.load import load
from opsctl.config.problems import ConfigFileError
from opsctl.config.settings import Project

Read = Callable[..., Project]
Told = Callable[[str | bytes], list[tuple[int, str, str]]]

MINIMAL = """\
services:
  web:
    app:
      directory: app
      command: ["{python}", main.py]
"""


@pytest.fixture(autouse=True)
def no_environment_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tester's own choice of an environment must not matter."""
    monkeypatch.delenv("OPSCTL_ENVIRONMENT", raising=False)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes a text as opsctl.yaml and loads it."""

    def read_text(
        text: str, *, environment: str | None = None, service: str | None = None
    ) -> Project:
        file = tmp_path / "opsctl.yaml"
        file.write_text(text)
        return load(file, environment=environment, service=service)

    return read_text


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Writes a broken opsctl.yaml and returns its problems as (line, key, what)."""

    def problems(data: str | bytes) -> list[tuple[int, str, str]]:
        file = tmp_path / "opsctl.yaml"
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        with pytest.raises(ConfigFileError) as caught:
            load(file, environment=None, service=None)
        assert caught.value.exit_code == 2
        return [(problem.line, problem.key, problem.what) for problem in caught.value.problems]

    return problems
