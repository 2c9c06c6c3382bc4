"""An opsctl project that ships the real sample service: TensorFlow, custom op, the whole gate.

The settings are those of the repository's own opsctl.yaml; only the port is chosen. The models
are trained once a checkout and copied into each project.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from opsctl import shell
from tests.apps.project import Candidate, free_port, merged

ROOT = Path(__file__).parents[2]
SERVICE = "anomaly"
TRAIN_MAX_S = 600.0
SEED = 42
VARIANTS = {"slower": "slow", "wrong_value": "wrong"}
"""Kinds of candidates that are another model; all others serve the normal one."""

GOOD = (
    Candidate("code"),
    Candidate("model", model_note=True),
    Candidate("config", env_note=True),
)
BAD = (
    Candidate("slower", 10),
    Candidate("wrong_value", 10),
    Candidate("model_missing", 10),
)
CANDIDATES = {candidate.kind: candidate for candidate in (*GOOD, *BAD)}


@dataclass(frozen=True)
class AnomalyProject:
    """A project on disk, as `ServiceProject` describes it."""

    root: Path
    port: int
    models: Path
    """Trained models by variant."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the service, key by key."""

    @property
    def config(self) -> Path:
        return self.root / "opsctl.yaml"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/models/{SERVICE}:predict"

    @property
    def requests(self) -> Path:
        return self.root / "requests.json"

    @property
    def state(self) -> Path:
        return self.root / ".opsctl" / "production" / SERVICE

    @property
    def replica_mark(self) -> str:
        return "ascend_serving serve"

    def change(self, candidate: Candidate, serial: int | str) -> None:
        (self.root / "images" / "serving" / "serial.txt").write_text(f"{serial}\n")
        model = self.root / "build" / "models" / "current"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(self.models / VARIANTS.get(candidate.kind, "normal"), model)
        if candidate.model_note:
            (model / "note.txt").write_text(f"{serial}\n")
        if candidate.kind == "model_missing":
            (model / "1" / "saved_model.pb").unlink()
        settings = yaml.safe_load((ROOT / "opsctl.yaml").read_text())
        service = merged(settings["services"][SERVICE], self.overrides)
        settings["services"][SERVICE] = service
        service["local"] = {"port": self.port}
        service["strategy"]["rollback_window_s"] = 600
        if candidate.env_note:
            service["app"]["env"]["NOTE"] = str(serial)
        self.config.write_text(yaml.safe_dump(settings, sort_keys=False))


def write(
    root: Path,
    models: Path,
    *,
    variants: Collection[str] = ("normal", *VARIANTS.values()),
    overrides: Mapping[str, Any] | None = None,
) -> AnomalyProject:
    """A new project in `root`; models are trained in `models` unless they are there."""
    for variant in variants:
        train(models, variant)
    serving = ROOT / "images" / "serving"
    ignored = shutil.ignore_patterns("tests", "__pycache__", "*.egg-info", "build")
    shutil.copytree(serving, root / "images" / "serving", ignore=ignored)
    project = AnomalyProject(root, free_port(), models, overrides or {})
    expected = json.loads((models / "normal" / "expected.json").read_text())
    samples = [
        {
            "body": {"instances": [window["instance"]]},
            "predictions": [{"score": window["score"], "anomaly": window["anomaly"]}],
            "tolerance": expected["tolerance"],
        }
        for window in expected["windows"]
    ]
    project.requests.write_text(json.dumps(samples))
    project.change(Candidate("first"), 0)
    return project


def train(models: Path, variant: str) -> None:
    """Train one variant of the sample model, always from the same seed."""
    folder = models / variant
    if (folder / "expected.json").exists():
        return
    part = models / f"{variant}.part"
    shutil.rmtree(part, ignore_errors=True)
    models.mkdir(parents=True, exist_ok=True)
    options = ["--out", str(part), "--seed", str(SEED), "--variant", variant]
    argv = [sys.executable, "-m", "ascend_serving.train", *options]
    done = shell.run(argv, timeout_s=TRAIN_MAX_S, cwd=ROOT)
    if not done.ok:
        raise RuntimeError(f"training failed: {done.why}\n{done.stderr[-2000:]}")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
