"""Projects of the tests' small service for target `kubernetes`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from opsctl.config.load import load
from opsctl.config.settings import Project


def project(folder: Path, image: str, kubernetes: Mapping[str, Any], **service: Any) -> Project:
    """A service `light`; keys of `kubernetes:` and of the service are given. The environment's own
    target matters to nothing here: tests make the one that they are about."""
    (folder / "app").mkdir(exist_ok=True)
    document = {
        "environments": {"production": {"target": "docker"}},
        "services": {
            "light": {
                "replicas": 2,
                "app": {"directory": "app", "command": ["/light"], "image": image},
                "kubernetes": {
                    "model_claim": None,
                    "cpu": 0.01,
                    "memory_mb": 32,
                    "traffic": "selector",
                    **kubernetes,
                },
                **service,
            }
        },
    }
    path = folder / "opsctl.yaml"
    path.write_text(yaml.safe_dump(document))
    return load(path, environment=None, service=None)
