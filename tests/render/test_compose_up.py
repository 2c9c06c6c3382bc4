"""A compose user comes to opsctl and goes back, on a real engine; users notice nothing of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl.config.load import load
from opsctl.targets.docker import agent_image
from opsctl.targets.docker.place import target_of
from tests.apps.project import free_port
from tests.cluster.kubernetes import wait_until
from tests.docker.bench_yard import FIRST_TIME_MAX_S, ROOT, Host
from tests.docker.fixtures import host as host

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]

REQUESTS_PER_S = 50
REQUEST_MAX_S = 60.0
"""On a machine that is very busy."""

WATCH_S = 3.0
"""How long users are watched after a replica died."""

BALANCER = """\
FROM {agent}
ENTRYPOINT ["haproxy", "-W", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
"""

OWN = """\
services:
  web:
    image: {image}
    command:
    - /bin/sh
    - -c
    - OPSCTL_HOST=0.0.0.0 OPSCTL_PORT=9000 OPSCTL_HEALTH_PORT=9001 exec python3 /app/app.py
    environment: {{OPSCTL_RELEASE: by hand, OPSCTL_REPLICA: by hand}}
    ports: ["127.0.0.1:{port}:9000"]
    healthcheck: {{test: "curl -f http://localhost:9001/health/ready"}}
    mem_limit: 128m
"""
"""What somebody without opsctl has written."""


class Users:
    """Somebody who asks one door all the time, and may be sent to another."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.bad: list[object] = []
        self.replicas: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Users:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def move(self, port: int) -> None:
        """Ask there from now on, as that door answers."""
        wait_until(lambda: bool(replica_behind(port)), "the new door answers")
        self.port = port
        self.replicas = set()
        wait_until(lambda: bool(self.replicas), "users are there")

    def _ask(self) -> None:
        while not self._over.wait(1 / REQUESTS_PER_S):
            seen = self.replicas
            try:
                seen.add(replica_behind(self.port))
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.bad.append(error)


def replica_behind(port: int) -> str:
    """Who answers there. Raises OSError, or ValueError for a bad answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_MAX_S)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return str(json.load(answer)["replica"])


def run(*argv: str, check: bool = True) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


@pytest.fixture
def up(host: Host) -> Iterator[Callable[[Path], str]]:
    """Starts compose projects; each gets a name of its own, and goes with the test."""
    if subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("docker has no compose")
    with contextlib.ExitStack() as stack:

        def start(file: Path) -> str:
            name = f"opsctl-test-{secrets.token_hex(4)}"
            stack.callback(stop, name)
            run("docker", "compose", "-p", name, "-f", str(file), "up", "--detach")
            return name

        yield start


def stop(name: str) -> None:
    run("docker", "compose", "-p", name, "down", "--timeout", "5", check=False)


def opsctl(config: Path, *words: str) -> dict[str, Any]:
    """The result of a command that must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "opsctl.cli", *words, "-c", str(config), "-o", "json"],
        capture_output=True, text=True, check=False, cwd=config.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def adopted(host: Host, tmp_path: Path) -> Iterator[tuple[Path, int, int]]:
    """The compose file's opsctl.yaml, the port of compose, and that of opsctl."""
    source = (ROOT / "tests/targets/app.py").read_bytes()
    image = "opsctl-test-compose:1"
    host.image({"app.py": source}, image)
    theirs, ours, back = free_port(), free_port(), free_port()
    (tmp_path / "compose.yaml").write_text(OWN.format(image=image, port=theirs))
    words = ["init", str(tmp_path), "--from-compose", str(tmp_path / "compose.yaml")]
    run(sys.executable, "-m", "opsctl.cli", *words)
    config = tmp_path / "opsctl.yaml"
    data = yaml.safe_load(config.read_text())
    service = data["services"]["web"]
    agent_image.require_image(host.engine, host.project(tmp_path / "x").service.docker, print)
    agent = f"opsctl-agent:{agent_image.build_digest(host.base)}"
    service["docker"] |= {
        "port": ours, "agent_base": host.base, "name": f"compose-{secrets.token_hex(4)}",
    }  # fmt: skip
    service["health"] |= {"tries": 600, "interval_s": 0.2}
    service["compose"] |= {
        "port": back, "replicas": 3, "models": str(tmp_path),
        "balancer_image": host.built(BALANCER.format(agent=agent), {}, "opsctl-test-haproxy:2"),
        "health_path": "/health/ready",
    }  # fmt: skip
    config.write_text(yaml.safe_dump(data))
    yield config, theirs, ours
    target = target_of(load(config, environment=None, service=None))
    target.storage.destroy()
    target.close()


def test_a_compose_user_comes_to_opsctl_and_goes_back_and_no_request_is_lost(
    adopted: tuple[Path, int, int], up: Callable[[Path], str]
) -> None:
    config, theirs, ours = adopted
    by_hand = up(config.parent / "compose.yaml")
    wait_until(lambda: replica_behind(theirs) == "by hand", "their door answers")
    with Users(theirs) as users:
        deployed = opsctl(config, "deploy")
        assert deployed["serving_release"] == "r1"
        users.move(ours)
        stop(by_hand)
        wait_until(lambda: users.replicas == {"r1-1"}, "opsctl serves")

        rendered = config.parent / "back.yaml"
        opsctl(config, "render", "compose", "--to", str(rendered))
        name = up(rendered)
        users.move(yaml.safe_load(config.read_text())["services"]["web"]["compose"]["port"])
        opsctl(config, "down", "--yes")
        everyone = {"web-1", "web-2", "web-3"}
        wait_until(lambda: users.replicas == everyone, "all three replicas answer")
        run("docker", "kill", f"{name}-web-2-1")
        time.sleep(WATCH_S)
    assert users.bad == []
