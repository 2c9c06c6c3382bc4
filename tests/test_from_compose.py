"""`opsctl init --from-compose`: what of a compose file becomes opsctl.yaml, and what is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl.commands.compose_file import Found, literal_names, seconds, take
from opsctl.config.load import load
from opsctl.render import compose

PORTS = [{"target": 9000, "published": "80", "protocol": "tcp"}]


def found(**data: Any) -> Found:
    whole = {"image": "reg.example/web:v1", "ports": PORTS, **data}
    literal = literal_names(whole.get("environment"))
    return Found("web", whole, literal, ["serve", "--json", '{"a": "5$$"}'])


def service(**data: Any) -> dict[str, Any]:
    return take(found(**data)).service


def test_the_command_is_taken_word_for_word() -> None:
    app = service()["app"]
    assert app["command"] == ["serve", "--json", '{{"a": "5$"}}']
    assert app["image"] == "reg.example/web:v1"


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (["A=1", "B", "C=${D}", "E=5$$"], {"A", "E"}),
        ({"A": 1, "B": None, "C": "x${D:-1}", "E": "$$5"}, {"A", "E"}),
        (None, set()),
    ],
)
def test_only_values_that_stand_in_the_file_are_copied(written: Any, names: set[str]) -> None:
    assert literal_names(written) == names


def test_what_variables_and_env_files_give_is_named_and_never_copied() -> None:
    data = {"image": "i", "environment": {"A": "1", "TOKEN": "t0k", "PW": "hunter2"}}
    taken = take(Found("web", data, {"A"}, ["serve"]))
    assert taken.service["app"]["env"] == {"A": "1"}
    assert taken.service["app"]["secrets"] == {"PW": {"env": "PW"}, "TOKEN": {"env": "TOKEN"}}
    assert "environment: PW, TOKEN must be set where opsctl deploys" in taken.notes
    assert "hunter2" not in json.dumps([taken.service, taken.notes])


@pytest.mark.parametrize(
    ("test", "port", "path"),
    [
        ("curl -f http://localhost:9001/healthz || exit 1", 9001, "/healthz"),
        (["CMD", "wget", "-q", "http://127.0.0.1:9000/up?a=1"], 9000, "/up?a=1"),
        (["CMD", "curl", "http://localhost"], 9000, "/"),
        (["CMD", "true"], 9000, "/"),
        (None, 9000, "/"),
    ],
)
def test_health_is_asked_where_the_health_check_does(test: Any, port: int, path: str) -> None:
    made = service(healthcheck={"test": test} if test else None)
    assert (made["docker"]["replica_port"], made["docker"]["health_port"]) == (9000, port)
    assert made["health"] == {"path": path, "live_path": path}


def test_limits_replicas_and_times_are_taken_over() -> None:
    limits = {"memory": "536870912", "cpus": 0.5}
    made = service(
        deploy={"replicas": 2, "resources": {"limits": limits}}, stop_grace_period="1m30s",
        user="1000:1000",
    )  # fmt: skip
    assert made["resources"] == {"memory_mb": 512}
    assert (made["replicas"], made["docker"]["cpus_max"]) == (2, 0.5)
    assert (made["app"]["stop_timeout_s"], made["docker"]["user"]) == (90.0, "1000:1000")
    assert service(mem_limit="1073741824", scale=3)["resources"] == {"memory_mb": 1024}


@pytest.mark.parametrize(
    ("text", "value"), [("10s", 10.0), ("1m30s", 90.0), ("2h", 7200.0), ("1.5s", 1.5), ("x", 0.0)]
)
def test_a_duration_of_compose_is_read(text: str, value: float) -> None:
    assert seconds(text) == value


def test_npus_come_from_device_nodes_or_from_the_runtimes_variable() -> None:
    nodes = [{"source": f"/dev/{name}"} for name in ("davinci3", "davinci2", "davinci_manager")]
    assert service(devices=nodes)["docker"]["npus"] == {
        "count": 2, "devices": [2, 3], "access": "devices",
    }  # fmt: skip
    by_runtime = service(runtime="ascend", environment={"ASCEND_VISIBLE_DEVICES": "5"})
    assert by_runtime["docker"]["npus"] == {"count": 1, "devices": [5], "access": "runtime"}
    assert "env" not in by_runtime["app"]


def test_what_is_not_taken_over_is_told() -> None:
    volume = {"type": "volume", "source": "data", "target": "/data"}
    notes = take(found(volumes=[volume], depends_on={"db": {}}, user="root")).notes
    assert [note.partition(":")[0] for note in notes] == [
        "ports", "healthcheck", "user", "volumes", "depends_on",
    ]  # fmt: skip


FILE = """\
services:
  web:
    image: reg.example/web:${TAG:-v1}
    entrypoint: serve --port 9000
    environment: ["COLOUR=blue", "TOKEN"]
    env_file: [web.env]
    ports: ["8080:9000"]
    healthcheck: {test: "curl -f http://localhost:9000/up"}
  db:
    image: postgres:15
    entrypoint: postgres
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if asked.returncode != 0:
        pytest.skip("docker has no compose")
    (tmp_path / "web.env").write_text("PW=hunter2\n")
    (tmp_path / "compose.yaml").write_text(FILE)
    return tmp_path / "compose.yaml"


def init(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opsctl.cli", "init", str(file.parent / "made")]
    return subprocess.run(
        [*command, "--from-compose", str(file), *words], capture_output=True, text=True, check=False
    )


@pytest.mark.docker
def test_a_compose_file_becomes_a_project_and_the_project_a_compose_file(file: Path) -> None:
    done = init(file, "--service", "web")
    assert done.returncode == 0, done.stderr
    path = file.parent / "made" / "opsctl.yaml"
    assert "hunter2" not in path.read_text() + done.stdout
    project = load(path, environment=None, service=None)
    assert (project.target, project.service_name) == ("docker", "web")
    assert project.service.app.command == ("serve", "--port", "9000")
    back = yaml.safe_load(compose.render(project, "r1", "reg.example/web:v1"))["services"]["web-1"]
    assert back["entrypoint"] == ["serve", "--port", "9000"]
    assert back["environment"]["COLOUR"] == "blue"
    assert back["healthcheck"]["test"][-1] == "http://127.0.0.1:9000/up"
    assert "devices" not in back
    assert "runtime" not in back


@pytest.mark.docker
def test_several_services_are_not_guessed_from_and_nothing_is_overwritten(file: Path) -> None:
    unsaid = init(file)
    assert unsaid.returncode == 2
    assert "there are: db, web. Say which one: --service NAME" in unsaid.stderr
    assert not (file.parent / "made").exists()
    (file.parent / "made").mkdir()
    (file.parent / "made" / "opsctl.yaml").write_text("mine")
    again = init(file, "--service", "web")
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert (file.parent / "made" / "opsctl.yaml").read_text() == "mine"


@pytest.mark.docker
def test_a_file_that_compose_refuses_is_told_in_its_words(file: Path) -> None:
    file.write_text(FILE.replace("${TAG:-v1}", "${NO_SUCH_TAG:?is not set}"))
    done = init(file, "--service", "web")
    assert done.returncode == 2
    assert "docker compose does not take" in done.stderr
    assert "NO_SUCH_TAG" in done.stderr
