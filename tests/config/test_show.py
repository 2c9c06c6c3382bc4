"""`config show`: what is in force, and where each value comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from opsctl.config.show import show
from opsctl.config.yaml_text import plain
from tests.config.full import FULL_TEXT

LINES = FULL_TEXT.splitlines()


def _line(text: str) -> int:
    return LINES.index(text) + 1


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The full example as `opsctl.yaml` in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "opsctl.yaml"
    path.write_text(FULL_TEXT)
    return path


def test_values_come_from_the_file_from_the_environment_or_are_defaults(file: Path) -> None:
    origins = show(file, environment="staging", service=None).to_dict()["origins"]
    assert origins["gate.beta"] == {"from": "file", "line": _line("      beta: 0.05")}
    assert origins["gate.alpha"] == {"from": "environment", "line": _line("          alpha: 0.1")}
    assert origins["app.env.MODE"] == {
        "from": "environment",
        "line": _line("            MODE: slow"),
    }
    assert origins["app.env.TF_CPP_MIN_LOG_LEVEL"] == {
        "from": "file",
        "line": _line('        TF_CPP_MIN_LOG_LEVEL: "2"'),
    }
    assert origins["bench.body"] == {"from": "default"}


def test_the_json_form_has_the_effective_values(file: Path) -> None:
    shown = show(file, environment="staging", service=None)
    data = shown.to_dict()
    assert data["values"] == plain(shown.service)
    assert (data["values"]["replicas"], data["values"]["local"]["port"]) == (2, "auto")
    assert (data["file"], data["environment"], data["service"], data["target"]) == (
        "opsctl.yaml",
        "staging",
        "web",
        "local",
    )


def test_the_yaml_form_reads_back_as_the_effective_values(file: Path) -> None:
    shown = show(file, environment="staging", service=None)
    assert yaml.safe_load(shown.to_yaml()) == plain(shown.service)


def test_the_yaml_form_tells_each_origin_at_its_value(file: Path) -> None:
    text = show(file, environment="staging", service=None).to_yaml().splitlines()
    replicas = next(line for line in text if line.startswith("replicas:"))
    place = f"opsctl.yaml:{_line('        replicas: 2')}"
    assert re.split(r"\s+# ", replicas) == ["replicas: 2", f"{place} (environment staging)"]
    assert text[0] == "# service web, environment staging, target local, from opsctl.yaml"


def test_secrets_are_shown_by_their_source_and_never_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "sentinel-value")
    (file.parent / "secrets").mkdir()
    (file.parent / "secrets" / "db").write_text("sentinel-value")
    shown = show(file, environment="production", service=None)
    assert "sentinel-value" not in shown.to_yaml() + str(shown.to_dict())
    assert shown.to_dict()["values"]["app"]["secrets"]["API_TOKEN"]["env"] == "TOKEN"
