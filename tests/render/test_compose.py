"""The compose file says what the field asks for."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl.commands.render import render
from opsctl.errors import ConfigError
from opsctl.images.build import Built
from opsctl.images.supply import images_folder
from opsctl.render import compose
from tests.render.projects import IMAGE, project


def rendered(folder: Path, **service: Any) -> dict[str, Any]:
    """The file as an object."""
    content: dict[str, Any] = yaml.safe_load(
        compose.render(project(folder, **service), "r1", IMAGE)
    )
    return content


def test_three_replicas_with_two_cards_each_and_no_card_twice(tmp_path: Path) -> None:
    services = rendered(tmp_path)["services"]
    assert list(services) == ["front", "anomaly-1", "anomaly-2", "anomaly-3"]
    cards = [services[f"anomaly-{n}"]["environment"]["ASCEND_VISIBLE_DEVICES"] for n in (1, 2, 3)]
    assert cards == ["0,1", "2,3", "4,5"]
    assert services["anomaly-1"]["runtime"] == "ascend"


def test_a_replica_has_the_limits_mounts_and_health_check_of_the_field(tmp_path: Path) -> None:
    replica = rendered(tmp_path)["services"]["anomaly-2"]
    assert replica["image"] == IMAGE
    assert replica["deploy"]["resources"] == {
        "limits": {"memory": "8G"},
        "reservations": {"memory": "4G"},
    }
    assert replica["environment"]["MODEL_PATH"] == "/models"
    assert replica["volumes"] == [
        "/srv/models:/models:ro",
        "/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro",
    ]
    check = replica["healthcheck"]
    assert (check["interval"], check["timeout"], check["retries"]) == ("30s", "10s", 3)
    assert check["test"][:3] == ["CMD", "python3", "-c"]
    assert check["test"][-1] == "http://127.0.0.1:8080/health"


def test_the_balancer_knows_all_replicas_and_is_published_on_port_80(tmp_path: Path) -> None:
    whole = rendered(tmp_path, compose={"replicas": 4})
    assert whole["services"]["front"]["ports"] == ["80:8080"]
    lines = whole["configs"]["front"]["content"].splitlines()
    assert [line.split()[1:] for line in lines if line.startswith("    server ")] == [
        [f"anomaly-{n}", f"anomaly-{n}:8501"] for n in (1, 2, 3, 4)
    ]


def test_cards_by_device_nodes_bring_the_control_devices_and_the_whole_driver(
    tmp_path: Path,
) -> None:
    replica = rendered(tmp_path, compose={"npu": "devices", "cards": 1})["services"]["anomaly-3"]
    assert replica["devices"] == [
        "/dev/davinci2",
        "/dev/davinci_manager",
        "/dev/devmm_svm",
        "/dev/hisi_hdc",
    ]
    assert "/usr/local/dcmi:/usr/local/dcmi:ro" in replica["volumes"]
    assert "runtime" not in replica
    assert "ASCEND_VISIBLE_DEVICES" not in replica["environment"]


def test_without_cards_nothing_of_ascend_is_in_it(tmp_path: Path) -> None:
    text = compose.render(project(tmp_path, compose={"cards": 0}), "r1", IMAGE)
    assert "ascend" not in text.lower()
    assert "davinci" not in text


def test_secrets_come_from_the_environment_and_dollars_are_kept(tmp_path: Path) -> None:
    app = {
        "directory": "app",
        "command": ["serve", "$HOME"],
        "env": {"PRICE": "5$"},
        "secrets": {"API_TOKEN": {"command": ["echo", "hidden"]}},
    }
    replica = rendered(tmp_path, app=app)["services"]["anomaly-1"]
    assert replica["entrypoint"] == ["serve", "$$HOME"]
    assert replica["environment"]["PRICE"] == "5$$"
    assert replica["environment"]["API_TOKEN"].startswith("${API_TOKEN:?")


def test_a_command_without_placeholders_is_found_where_docker_looks_for_it(tmp_path: Path) -> None:
    app = {"directory": "app", "command": ["serve", "--port", "9000"]}
    ports = {"replica_port": 9000, "health_port": 9001}
    services = rendered(tmp_path, app=app, docker=ports)["services"]
    assert services["anomaly-1"]["healthcheck"]["test"][-1] == "http://127.0.0.1:9001/health"
    front = yaml.safe_load(compose.render(project(tmp_path, app=app, docker=ports), "r1", IMAGE))[
        "configs"
    ]["front"]["content"]
    assert "server anomaly-1 anomaly-1:9000" in front
    assert "default-server check port 9001 " in front


def test_without_an_image_in_the_settings_it_is_the_one_that_was_built_last(tmp_path: Path) -> None:
    build = {"image": "reg.example/own", "base": IMAGE, "requirements": "requirements.txt"}
    made = project(tmp_path, build=build)
    asked = argparse.Namespace(action="compose", image=None, release="r1", to=None)
    with pytest.raises(ConfigError, match="anomaly has no image to run"):
        render(made, asked)
    digest = f"sha256:{'2' * 64}"
    folder = images_folder(made)
    folder.mkdir(parents=True)
    built = Built("reg.example/own", digest, "key", pushed=True, fresh=True)
    (folder / "last.json").write_text(json.dumps(built.to_dict()))
    text = render(made, asked).data["rendered"]
    replica = yaml.safe_load(text)["services"]["anomaly-1"]
    assert replica["image"] == f"reg.example/own@{digest}"


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{}, {"npu": "devices"}, {"cards": 0}])
def test_docker_compose_takes_the_file(tmp_path: Path, settings: dict[str, Any]) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    version = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if version.returncode != 0:
        pytest.skip("docker has no compose")
    file = tmp_path / "compose.yaml"
    app = {"directory": "app", "command": ["serve", "$HOME"], "env": {"PRICE": "5$"}}
    file.write_text(compose.render(project(tmp_path, app=app, compose=settings), "r1", IMAGE))
    done = subprocess.run(
        ["docker", "compose", "--file", str(file), "config"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    replica = yaml.safe_load(done.stdout)["services"]["anomaly-1"]
    # As compose itself spells it: doubled again, so that the output can be read back.
    assert replica["environment"]["PRICE"] == "5$$"
    assert replica["deploy"]["resources"]["limits"]["memory"] == str(8 * 1024**3)
