"""A complete opsctl project for the light service, and changes that make good and bad candidates.

The settings are short: a deploy of it takes a few seconds, its gate one batch size and 5 s at
most with wide margins. Everything that the client needs to check answers is written beside it.
"""

from __future__ import annotations

import json
import random
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

APPS = Path(__file__).parent
SERVICE = "light"
PREDICT = "/v1/models/light:predict"

WEIGHTS = (0.5, -1.0, 2.0, 0.25)
BIAS = 0.125
"""Sums of small multiples of powers of two: exact in floats, so tests compare with ==."""

WORK_MS = 10.0
"""A prediction's time, asleep; the slower candidates add a share of it. Long enough that a busy
machine's own delays do not hide what the slower candidates add."""

BENCH = {
    "path": PREDICT,
    "requests_file": "instances.jsonl",
    "batch_sizes": [1],
    "rate_per_s": 100,
    "warmup_s": 0.2,
    "warmup_requests": 20,
    "warmup_max_s": 2,
    "connections": 16,
}
GATE = {
    "budget_s": 5,
    "min_pairs": 60,
    "alpha": 0.05,
    "beta": 0.05,
    "tolerated_p50_percent": 10,
    "refused_p50_percent": 250,
    "metrics": ["p50", "errors"],
    "refused_error_rate": 0.1,
    "max_lag_percent": 1000,
    "confirm": False,
}
"""One batch size and wide margins: a few seconds. That far apart, they let the gate decide on a
machine where the service waits 24 times as long for a CPU as it runs."""


@dataclass(frozen=True)
class Candidate:
    """One way to change the project, with what `opsctl deploy` must answer to it."""

    kind: str
    exit_code: int = 0
    fault: Mapping[str, Any] = field(default_factory=dict)
    """Content of fault.json."""
    model_note: bool = False
    """Changes the model's file, not its values."""
    env_note: bool = False
    """Changes the application's configuration in opsctl.yaml."""
    model_path: str | None = None
    """Another model path in opsctl.yaml."""

    @property
    def good(self) -> bool:
        """Whether the deploy must succeed."""
        return self.exit_code == 0


GOOD = (
    Candidate("code"),
    Candidate("model", model_note=True),
    Candidate("config", env_note=True),
    Candidate("ignores_sigterm", fault={"ignores_sigterm": True}),
)

BAD = (
    Candidate("exits_at_start", 10, {"exit_at_start": 3}),
    Candidate("hangs_at_start", 10, {"hang_at_start": True}),
    Candidate("health_500", 10, {"health_status": 500}),
    Candidate("health_flaps", 10, {"health_flaps": 1}),
    Candidate("dies", 10, {"dies_after_s": 1.0}),
    Candidate("wrong_value", 10, {"value_error": 1e-3}),
    Candidate("wrong_shape", 10, {"wrong_shape": True}),
    Candidate("slower", 10, {"slower_percent": 400.0}),
    Candidate("busier", 10, {"slower_percent": 100.0, "slower_by": "busy"}),
    Candidate("leaks", 10, {"leak_mb_per_s": 400.0}),
    Candidate("model_missing", 10, {"model_missing": True}),
)
"""Each is refused before a user meets a wrong answer."""

SERVES_ERRORS = Candidate("serves_errors", 10, {"user_errors_percent": 50.0})
"""Only the users see what is wrong with it, so a canary of it costs some failed requests."""

MODEL_PATH_MISSING = Candidate("model_path_missing", 4, model_path="no-such-model")

CANDIDATES = {c.kind: c for c in (*GOOD, *BAD, SERVES_ERRORS, MODEL_PATH_MISSING)}


class ServiceProject(Protocol):
    """A project with a service whose right answers are known; campaigns run on any."""

    @property
    def root(self) -> Path:
        """The folder of opsctl.yaml."""

    @property
    def port(self) -> int:
        """The front door."""

    @property
    def config(self) -> Path:
        """The opsctl.yaml."""

    @property
    def url(self) -> str:
        """Where users ask for predictions."""

    @property
    def requests(self) -> Path:
        """The client's requests with the right answers."""

    @property
    def state(self) -> Path:
        """The service's state on target `local`."""

    @property
    def replica_mark(self) -> str:
        """Part of a replica's command line that no other process has."""

    def change(self, candidate: Candidate, serial: int | str) -> None:
        """Turn the project into a candidate; `serial` makes its content unlike all others."""


@dataclass(frozen=True)
class Options:
    """What tests vary; the keys of opsctl.yaml win over everything else by `overrides`."""

    replicas: int = 1
    gate: bool = True
    strategy: str = "canary"
    work_ms: float = WORK_MS
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the service, key by key."""


@dataclass(frozen=True)
class LightProject:
    """A project on disk."""

    root: Path
    port: int
    options: Options

    @property
    def config(self) -> Path:
        """The opsctl.yaml."""
        return self.root / "opsctl.yaml"

    @property
    def url(self) -> str:
        """Where users ask for predictions."""
        return f"http://127.0.0.1:{self.port}{PREDICT}"

    @property
    def requests(self) -> Path:
        """The client's requests with the right answers."""
        return self.root / "requests.json"

    @property
    def replica_mark(self) -> str:
        """Part of a replica's command line that no other process has."""
        return "light.py --port"

    @property
    def state(self) -> Path:
        """The service's state on target `local`."""
        return self.root / ".opsctl" / "production" / SERVICE

    def change(self, candidate: Candidate, serial: int | str) -> None:
        """Turn the project into a candidate; `serial` makes its content unlike all others."""
        app, model = self.root / "app", self.root / "model"
        (app / "serial.txt").write_text(f"{serial}\n")
        fault = app / "fault.json"
        fault.unlink(missing_ok=True)
        if candidate.fault:
            fault.write_text(json.dumps(dict(candidate.fault)))
        note = {"note": str(serial)} if candidate.model_note else {}
        _write_model(model / "weights.json", note)
        env = {"LIGHT_NOTE": str(serial)} if candidate.env_note else {}
        _write_config(self, env, candidate.model_path or "model")


def write(root: Path, options: Options | None = None, port: int | None = None) -> LightProject:
    """A new project in `root` with a good service and its front door on `port` (default: free)."""
    project = LightProject(root, port or free_port(), options or Options())
    (root / "app").mkdir(parents=True)
    (root / "model").mkdir()
    shutil.copy(APPS / "light.py", root / "app")
    samples = [sample(index) for index in range(64)]
    project.requests.write_text(json.dumps(samples))
    lines = (json.dumps(instance) for item in samples for instance in item["body"]["instances"])
    (root / "instances.jsonl").write_text("\n".join(lines) + "\n")
    project.change(Candidate("first"), 0)
    return project


def sample(index: int) -> dict[str, Any]:
    """The `index`-th request of the client: body, and predictions by a formula of its own."""
    numbers = random.Random(index)
    instances = [[numbers.randrange(-64, 65) / 8 for _ in WEIGHTS] for _ in range(1 + index % 3)]
    predictions = [
        [x[0] / 2 - x[1] + 2 * x[2] + x[3] / 4 + 1 / 8] for x in instances
    ]  # fmt: skip
    return {"body": {"instances": instances}, "predictions": predictions}


def free_port() -> int:
    """A port that nobody listens on, outside the kernel's ephemeral range and the replicas'."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(10000, 19000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("1000 ports tried, none is free")


def _write_model(path: Path, note: Mapping[str, str]) -> None:
    path.write_text(json.dumps({"w": WEIGHTS, "b": BIAS, **note}))


def _write_config(project: LightProject, env: Mapping[str, str], model_path: str) -> None:
    service = merged(_service(project, env, model_path), project.options.overrides)
    text = yaml.safe_dump({"version": 1, "services": {SERVICE: service}}, sort_keys=False)
    project.config.write_text(text)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, key by key."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merged(old, value)
        result[name] = value
    return result


def _service(project: LightProject, env: Mapping[str, str], model_path: str) -> dict[str, Any]:
    options = project.options
    # A range of its own for each project, so that neighbours seldom try the same port.
    first_port = 20000 + (project.port % 90) * 100
    stages = {"stages": [{"weight": 20, "hold_s": 0.5}]} if options.strategy == "canary" else {}
    return {
        "app": {
            "directory": "app",
            "command": [
                *("{python}", "-S", "-E", "light.py", "--port", "{port}"),
                *("--health-port", "{health_port}", "--model", "{model}"),
                *("--release", "{release}", "--work-ms", str(options.work_ms)),
            ],
            "env": dict(env),
            "stop_timeout_s": 1.0,
        },
        "model": {"path": model_path, "name": "light"},
        "replicas": options.replicas,
        "resources": {"memory_mb": 200},
        "health": {"interval_s": 0.05, "timeout_s": 1.0, "tries": 60, "streak": 3},
        "smoke": _smoke(),
        "bench": BENCH,
        "gate": {**GATE, "enabled": options.gate},
        "strategy": {
            "type": options.strategy,
            **stages,
            "promote_hold_s": 0.3,
            "drain_timeout_s": 3,
            "rollback_window_s": 600,
            "step_timeout_s": 30,
        },
        "local": {"port": project.port, "replica_ports": [first_port, first_port + 99]},
    }


def _smoke() -> list[dict[str, Any]]:
    right = sample(0)
    values = {
        "path": "predictions",
        "equals": right["predictions"],
        "tolerance": 1e-6,
        "shape": [len(right["predictions"]), 1],
    }
    return [
        {"name": "model is there", "path": "/v1/models/light"},
        {
            "name": "predicts right values",
            "method": "POST",
            "path": PREDICT,
            "body": right["body"],
            "json": [values],
        },
    ]
