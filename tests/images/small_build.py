"""A project whose image is built in seconds: no package is fetched, and TensorFlow is a stand-in.

Everything else is real: the Dockerfile, BuildKit, pip with its hashes, the registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from opsctl.images.dockerfile import _PACKAGES
from tests.docker.bench_yard import ROOT, Host, tools_path

TENSORFLOW = "2.21.0"
MTIME = (2026, 1, 1, 0, 0, 0)
BUILD_MAX_S = 600

PREPARED = """\
FROM {base}
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends {packages} \\
 && rm -rf /var/lib/apt/lists/*
"""


@dataclass(frozen=True)
class SmallBuild:
    """A project on disk with a `build`."""

    root: Path
    host: Host
    repository: str

    def configure(self, **changes: Any) -> None:
        """Write opsctl.yaml, with `changes` of `build`; None leaves a key out."""
        build = {
            "image": self.repository, "base": prepared_base(self.host),
            "requirements": "requirements.txt", "sources": {"wheelhouse": "wheels"}, **changes,
        }  # fmt: skip
        service = {
            "app": {"directory": "app", "command": ["{python}", "/app/app.py"]},
            "build": {key: value for key, value in build.items() if value is not None},
            "docker": {"name": self.repository.rpartition("/")[2], "port": "auto",
                       "agent_base": self.host.base},
            "health": {"tries": 600, "interval_s": 0.2},
        }  # fmt: skip
        data = {
            "services": {"small": service},
            "environments": {"production": {"target": "docker"}},
        }
        (self.root / "opsctl.yaml").write_text(yaml.safe_dump(data))

    def opsctl(self, *words: str, **env: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, result and stderr of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "opsctl.cli", *words, "-o", "json"],
            cwd=self.root, capture_output=True, text=True, check=False, timeout=BUILD_MAX_S,
            env={**os.environ, "PATH": tools_path(), "PYTHONPATH": str(ROOT), **env},
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def small_build(root: Path, host: Host) -> SmallBuild:
    """A new project in `root`, with an image name of its own."""
    (root / "app").mkdir(parents=True)
    (root / "app" / "app.py").write_bytes((ROOT / "tests/targets/app.py").read_bytes())
    (root / "wheels").mkdir()
    digest = _write_wheel(root / "wheels")
    locked = f"tensorflow-cpu=={TENSORFLOW} \\\n    --hash=sha256:{digest}\n"
    (root / "requirements.txt").write_text(locked)
    made = SmallBuild(root, host, f"{host.registry}/small-{uuid.uuid4().hex[:8]}")
    made.configure()
    return made


def prepared_base(host: Host) -> str:
    """A base, pinned, that has the packages which the Dockerfile asks for."""
    names = [*_PACKAGES["apt"]["runtime"], *_PACKAGES["apt"]["venv"]]
    packages = " ".join(name.format(python="3.11") for name in names)
    image = host.built(PREPARED.format(base=host.base, packages=packages), {})
    name = f"{host.registry}/opsctl-test/prepared"
    return f"{name}@{host.push(image, f'{name}:1')}"


def _write_wheel(folder: Path) -> str:
    """A wheel that says it is TensorFlow; its SHA-256."""
    info = f"tensorflow_cpu-{TENSORFLOW}.dist-info"
    files = {
        "tensorflow/__init__.py": f'__version__ = "{TENSORFLOW}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: {TENSORFLOW}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    path = folder / f"tensorflow_cpu-{TENSORFLOW}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, MTIME), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()
