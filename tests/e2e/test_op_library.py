"""The real TensorFlow service with its operator library, and one that is built for another."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl import shell
from scripts.campaigns._opsctl import ROOT, Opsctl, end_leftovers
from tests.apps.project import LightProject, Options, free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TRAIN_MAX_S = 400.0
OTHER_TENSORFLOW = "2.19.0"


@pytest.fixture
def anomaly(tmp_path: Path) -> Iterator[Opsctl]:
    """The sample service of this repository in a project of its own, with version 1 deployed."""
    for package in ("tensorflow", "ascend_ops"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    root = tmp_path / "project"
    skip = shutil.ignore_patterns("__pycache__", "tests", "build", "*.egg-info")
    shutil.copytree(ROOT / "images" / "serving", root / "app", ignore=skip)
    trained = shell.run(
        [sys.executable, "-m", "ascend_serving.train", "--out", str(root / "model"),
         "--model-version", "1", "--seed", "42"],
        timeout_s=TRAIN_MAX_S, cwd=root / "app",
    )  # fmt: skip
    assert trained.ok, trained.stderr[-2000:]
    port = free_port()
    (root / "opsctl.yaml").write_text(
        yaml.safe_dump({"services": {"anomaly": service(root, port)}})
    )
    opsctl = Opsctl(LightProject(root, port, Options()))
    yield opsctl
    opsctl.run("down", "--yes")
    assert end_leftovers(root, 10) == []


def service(root: Path, port: int) -> dict[str, Any]:
    """The service of opsctl.yaml; its smoke test has the scores that training recorded."""
    expected = json.loads((root / "model" / "expected.json").read_text())
    window = expected["windows"][0]
    right = {
        "path": "predictions.0.score",
        "equals": window["score"],
        "tolerance": expected["tolerance"],
    }
    smoke = {
        "name": "scores a window", "method": "POST", "path": "/v1/models/anomaly:predict",
        "body": {"instances": [window["instance"]]}, "json": [right],
    }  # fmt: skip
    first = 20000 + port % 90 * 100
    return {
        "app": {
            "directory": "app",
            "command": [
                "{python}", "-m", "ascend_serving", "serve", "--model-name", "anomaly",
                "--model-path", "{model}", "--host", "127.0.0.1", "--port", "{port}",
                "--health-host", "127.0.0.1", "--health-port", "{health_port}", "--threads", "1",
            ],
            "stop_timeout_s": 20,
        },
        "model": {"path": "model", "name": "anomaly"},
        "health": {"tries": 240, "interval_s": 0.5, "streak": 2},
        "smoke": [smoke],
        "gate": {"enabled": False},
        "strategy": {"stages": [{"weight": 20, "hold_s": 1}], "promote_hold_s": 1},
        "local": {"port": port, "replica_ports": [first, first + 99]},
    }  # fmt: skip


@dataclass(frozen=True)
class Serving:
    """What serves, and by which processes."""

    release: str
    pids: dict[str, int]


def serving(opsctl: Opsctl) -> Serving:
    """What serves now."""
    status = opsctl.status()
    release = status["serving_release"]
    replicas = status["observed"]["replicas"]
    return Serving(release, {r["name"]: r["pid"] for r in replicas if r["release"] == release})


def library_for_another_tensorflow(app: Path) -> None:
    """A copy of the installed operator library in the application, which says so in its record."""
    spec = importlib.util.find_spec("ascend_ops")
    assert spec is not None and spec.submodule_search_locations
    copy = app / "ascend_ops"
    shutil.copytree(next(iter(spec.submodule_search_locations)), copy)
    record = json.loads((copy / "build_record.json").read_text())
    record["tensorflow_version"] = OTHER_TENSORFLOW
    (copy / "build_record.json").write_text(json.dumps(record))


def test_an_operator_library_built_for_another_tensorflow_is_refused_and_the_old_release_serves(
    anomaly: Opsctl,
) -> None:
    first = anomaly.run("deploy")
    assert (first.exit_code, first.data["serving_release"]) == (0, "r1"), first.stderr
    before = serving(anomaly)
    library_for_another_tensorflow(anomaly.project.root / "app")
    result = anomaly.run("deploy")
    assert (result.exit_code, result.data["serving_release"]) == (10, "r1"), result.stderr
    assert result.data["reason"].startswith("start failed: r2-1 ")
    assert "before it was healthy" in result.data["reason"]
    assert f"TensorFlow {OTHER_TENSORFLOW}" in result.data["reason"]
    assert result.data["next_step"]
    assert serving(anomaly) == before
    smoke = anomaly.run("smoke")
    assert (smoke.exit_code, smoke.data["outcome"]) == (0, "passed"), smoke.stderr


def test_a_change_of_the_model_alone_deploys_and_rolls_back_the_real_service(
    anomaly: Opsctl,
) -> None:
    assert anomaly.run("deploy").exit_code == 0
    root = anomaly.project.root
    facts = json.loads((root / "model" / "model.json").read_text())
    (root / "model" / "model.json").write_text(json.dumps({**facts, "note": "of today"}))
    changed = anomaly.run("deploy")
    assert (changed.exit_code, changed.data["serving_release"]) == (0, "r2"), changed.stderr
    assert anomaly.run("smoke").exit_code == 0
    back = anomaly.run("rollback")
    assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
    assert anomaly.run("smoke").exit_code == 0
