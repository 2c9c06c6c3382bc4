"""Projects with a `build` for the tests: a small application, locked requirements, operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from opsctl.config.load import load
from opsctl.config.settings import Project

BASE = f"debian:bookworm-slim@sha256:{'ab' * 32}"
LOCKED = f"tensorflow-cpu==2.21.0 \\\n    --hash=sha256:{'cd' * 32}\n"
TOOLS = f"cmake==4.1.0 \\\n    --hash=sha256:{'ef' * 32}\n"

CPU: dict[str, Any] = {
    "image": "registry.example/team/web",
    "base": BASE,
    "requirements": "requirements.txt",
    "architecture": "x86_64",
}
OPERATORS = {"operators": "kernels", "operator_requirements": "tools.txt"}
CANN: dict[str, Any] = {
    **CPU,
    "system": "ubuntu-22.04",
    "flavour": "cann",
    "cann": {"version": "8.5.0", "chip": "910b", "driver": "25.5.0"},
}


def make_project(folder: Path, build: dict[str, Any], **service: Any) -> Project:
    """A project in `folder`, made when it is empty; `build` as it stands in opsctl.yaml."""
    (folder / "app").mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / "scale").mkdir(parents=True, exist_ok=True)
    files = {
        "app/main.py": "print('served')\n",
        "requirements.txt": LOCKED,
        "tools.txt": TOOLS,
        "kernels/pyproject.toml": "[project]\nname = 'ops'\n",
        "kernels/scale/scale.cpp": "int scale;\n",
    }
    for name, text in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    app = {"directory": "app", "command": ["{python}", "main.py", "--port", "{port}"]}
    app |= service.pop("app", {})
    data = {"services": {"web": {"app": app, "build": build, **service}}}
    (folder / "opsctl.yaml").write_text(yaml.safe_dump(data))
    return load(folder / "opsctl.yaml", environment=None, service=None)
