"""Projects to render."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from opsctl.config.load import load
from opsctl.config.settings import Project

IMAGE = "registry.example/anomaly@sha256:" + "1" * 64


def project(folder: Path, **service: Any) -> Project:
    """A project with one service, `anomaly`, from the given keys over a few needed ones."""
    whole = {
        "app": {"directory": "app", "command": ["{python}", "serve.py", "--port", "{port}"]},
        **service,
    }
    folder.mkdir(exist_ok=True)
    file = folder / "opsctl.yaml"
    file.write_text(yaml.safe_dump({"services": {"anomaly": whole}}))
    return load(file, environment=None, service=None)
