"""opsctl.yaml becomes values that the chart takes and that say what the file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from opsctl.config.load import load
from opsctl.model import Stamp
from opsctl.render.service_values import release_values, service_values
from tests.config.full import FULL_TEXT
from tests.render.projects import IMAGE, project

CHART = Path(__file__).parents[2] / "helm"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def pod(folder: Path, **service: Any) -> dict[str, Any]:
    """The pod settings of a release of such a service."""
    settings: dict[str, Any] = release_values(project(folder, **service), "r1", IMAGE)["pod"]
    return settings


def errors(values: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(values)]


def test_the_defaults_are_those_of_the_field(tmp_path: Path) -> None:
    made = project(tmp_path)
    settings = release_values(made, "r1", IMAGE)["pod"]
    assert made.service.kubernetes.namespace == "ai-serving"
    assert settings["resources"] == {
        "requests": {"cpu": "2000m", "memory": "4096Mi"},
        "limits": {"memory": "4096Mi"},
    }
    assert settings["ports"] == {"http": 8501, "health": 8080}
    assert settings["env"] == {"TF_CPP_MIN_LOG_LEVEL": "2"}
    assert settings["model"] == {"claim": "model-pvc", "mountPath": "/models", "path": "/models"}
    assert settings["npu"]["nodeLabels"] == {"hardware-type": "ascend-npu"}
    assert service_values(made, [])["front"] == {"type": "LoadBalancer", "port": 8501}


def test_a_release_holds_every_setting_that_a_newer_chart_could_have_other_defaults_for(
    tmp_path: Path,
) -> None:
    """Else an upgrade of the chart would restart the pods of an old release."""
    chart = yaml.safe_load((CHART / "values.yaml").read_text())["pod"]
    own = pod(tmp_path)
    # Empty in the chart, and nothing that a service needs: these stay empty.
    assert {name for name in chart if name not in own} == {
        "imagePullPolicy", "args", "files", "filesPath", "tolerations", "affinity",
        "priorityClassName", "labels", "annotations",
    }  # fmt: skip


def test_the_command_is_filled_in_and_kubernetes_finds_no_variable_but_the_replicas(
    tmp_path: Path,
) -> None:
    command = ["{python}", "s.py", "{host}:{port}", "{health_port}", "{model}", "{release}",
               "{replica}", "$(HOME) {{x}}"]  # fmt: skip
    settings = pod(
        tmp_path,
        app={"directory": "app", "command": command},
        model={"path": "model"},
        kubernetes={"model_path": "/models/7"},
    )
    assert settings["command"] == [
        "python3", "s.py", "0.0.0.0:8501", "8080", "/models/7", "r1", "$(OPSCTL_REPLICA)",
        "$$(HOME) {x}",
    ]  # fmt: skip


def test_secrets_are_named_and_never_valued(tmp_path: Path) -> None:
    settings = pod(
        tmp_path,
        app={
            "directory": "app",
            "command": ["serve"],
            "secrets": {"API_TOKEN": {"command": ["echo", "hidden"]}},
        },
    )
    assert settings["secretEnv"] == {
        "API_TOKEN": {"secret": "anomaly-r1-secrets", "key": "API_TOKEN"}
    }


def test_times_are_whole_seconds_rounded_up(tmp_path: Path) -> None:
    settings = pod(
        tmp_path,
        health={"interval_s": 0.5, "timeout_s": 2.5, "tries": 60},
        strategy={"drain_timeout_s": 12.1},
        app={"directory": "app", "command": ["serve"], "stop_timeout_s": 5},
        kubernetes={"pre_stop_s": 0},
    )
    assert settings["probes"]["startup"] == {
        "periodSeconds": 1,
        "failureThreshold": 60,
        "timeoutSeconds": 3,
    }
    assert settings["drain"] == {"preStopSeconds": 0, "timeoutSeconds": 13}


def test_memory_is_the_services_own_limit_where_it_has_one(tmp_path: Path) -> None:
    settings = pod(tmp_path, resources={"memory_mb": 512}, kubernetes={"cpu": 0.25})
    assert settings["resources"]["limits"] == {"memory": "512Mi"}
    assert settings["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi"}


@pytest.mark.parametrize("chip", ["none", "910", "910b", "910c", "310p", "310", "950"])
def test_the_chart_takes_the_values_of_every_chip(tmp_path: Path, chip: str) -> None:
    made = project(tmp_path, kubernetes={"npu": {"chip": chip}})
    values = service_values(made, [release_values(made, "r1", IMAGE)], Stamp(2, 7, "ab12"))
    assert errors(values) == []
    assert values["state"] == {"epoch": 2, "sequence": 7, "digest": "ab12"}
    assert values["releases"][0]["pod"]["npu"]["chip"] == ("" if chip == "none" else chip)


def test_the_chart_takes_the_values_of_a_file_that_sets_every_key(tmp_path: Path) -> None:
    file = tmp_path / "opsctl.yaml"
    file.write_text(FULL_TEXT)
    made = load(file, environment="production", service=None)
    values = service_values(made, [release_values(made, "r1", IMAGE)])
    assert errors(values) == []
    assert values["traffic"]["gateway"] == {
        "name": "front",
        "namespace": "infra",
        "sectionName": "web",
    }
    assert values["releases"][0]["pod"]["autoscaling"] == {
        "enabled": True,
        "maxReplicas": 8,
        "cpuPercent": 50,
    }
