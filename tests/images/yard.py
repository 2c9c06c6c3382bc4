"""A clone of this repository whose sample service is built on the engine of `scripts/docker`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "opsctl-test/image"
"""One for all tests, so that they share the foundation: all of TensorFlow."""

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""The machine's own, which may trust a proxy that a container does not know."""

BUILD_TIMEOUT_S = 1500


@dataclass(frozen=True)
class Yard:
    """Where registry, base image, BuildKit and cosign are."""

    registry: str
    base: str
    buildkit: str
    path: str

    @property
    def image(self) -> str:
        return f"{self.registry}/{REPOSITORY}"


def yard_or_skip() -> Yard:
    """What `scripts/docker env` says; skips where it says nothing."""
    command = 'eval "$(scripts/docker env)" && env'
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    if "OPSCTL_TEST_BUILDKIT" not in found:
        pytest.skip("no engine with BuildKit is ready (scripts/docker up)")
    return Yard(
        registry=found["OPSCTL_TEST_REGISTRY"],
        base=found["OPSCTL_TEST_BASE"],
        buildkit=found["OPSCTL_TEST_BUILDKIT"],
        path=found["PATH"],
    )


def build_of(yard: Yard, **changes: Any) -> dict[str, Any]:
    """`build` of the sample service on this machine; a change to None leaves the key out."""
    settings = {
        "image": yard.image,
        "base": yard.base,
        "requirements": "images/requirements/serving.txt",
        "operators": "kernels",
        "operator_requirements": "images/requirements/operators.txt",
        "builder": yard.buildkit,
        "sources": {"ca_bundle": CERTIFICATES},
        **changes,
    }
    return {key: value for key, value in settings.items() if value is not None}


@dataclass(frozen=True)
class Clone:
    """A clone with an opsctl.yaml of its own."""

    root: Path
    yard: Yard

    def configure(self, **changes: Any) -> None:
        """Write opsctl.yaml anew, with `changes` of `build`."""
        text = subprocess.run(
            ["git", "-C", str(self.root), "show", "HEAD:opsctl.yaml"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        data = yaml.safe_load(text)
        data["services"]["anomaly"]["build"] = build_of(self.yard, **changes)
        (self.root / "opsctl.yaml").write_text(yaml.safe_dump(data, sort_keys=False))

    def opsctl(self, *words: str, **environment: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, the last JSON object, and stderr of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "opsctl.cli", *words, "-o", "json"],
            cwd=self.root, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S,
            env={**os.environ, "PATH": self.yard.path, "PYTHONPATH": str(ROOT), **environment},
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def clone_into(folder: Path, yard: Yard, **changes: Any) -> Clone:
    """A clean clone of what is committed here."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    clone = Clone(folder, yard)
    clone.configure(**changes)
    return clone
