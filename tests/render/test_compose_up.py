"""The compose file on a real engine: three replicas, of which one may die unnoticed."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl.render import compose
from tests.cluster.kubernetes import ask, wait_until
from tests.docker.bench_yard import host_or_skip
from tests.render.projects import project

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    # Its small service is made by scripts/cluster build, which only --real runs.
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
BALANCER = "opsctl-test-haproxy:1"
SERVICE = "opsctl-test-light:1"
PATH = "/v1/models/light"
REQUESTS_PER_S = 50
DOCKERFILE = """\
FROM {base}
RUN apt-get update && apt-get install --yes --no-install-recommends haproxy
USER haproxy
ENTRYPOINT ["haproxy", "-W", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
"""


def run(*argv: str, given: str = "", check: bool = True) -> str:
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def engine() -> None:
    """An engine with compose and both images."""
    host = host_or_skip()
    host.engine.close()
    run("docker", "build", "--tag", BALANCER, "-", given=DOCKERFILE.format(base=host.base))


@pytest.fixture(scope="module")
def image(engine: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tests' small service, as scripts/cluster builds it."""
    cache = Path(os.environ.get("OPSCTL_CACHE") or Path.home() / ".cache" / "opsctl")
    found = sorted(cache.glob("cluster/images-*/light"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip("the small service is not built: run scripts/cluster build")
    archive = tmp_path_factory.mktemp("image") / "light.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(found[-1], ".")
    run("docker", "import", str(archive), SERVICE)
    return SERVICE


@pytest.fixture
def service(image: str, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The compose project and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = project(
        tmp_path,
        app={
            "directory": "app",
            "command": ["/light"],
            "env": {"URL": "http://127.0.0.1:8080/health"},
        },
        compose={
            "port": port,
            "cards": 0,
            "memory_limit_mb": 128,
            "memory_reserved_mb": 32,
            "models": str(tmp_path),
            "health_command": ["/light", "get"],
            "balancer_image": BALANCER,
        },
    )
    file = tmp_path / "compose.yaml"
    # The small service serves a model of its own when none is named.
    text = compose.render(made, "r1", image).replace('MODEL_PATH: "/models"', 'MODEL_PATH: ""')
    file.write_text(text)
    name = f"opsctl-test-{secrets.token_hex(4)}"
    argv = ["docker", "compose", "--project-name", name, "--file", str(file)]
    try:
        run(*argv, "up", "--detach", "--quiet-pull")
        yield name, port
    finally:
        run(*argv, "down", "--timeout", "5", check=False)


def test_a_killed_replica_costs_no_request(service: tuple[str, int]) -> None:
    name, port = service
    wait_until(lambda: ask("127.0.0.1", port, PATH).status == 200, "the front door answers")
    bad: list[object] = []
    stop = threading.Event()
    hosts: set[str] = set()

    def client() -> None:
        while not stop.is_set():
            try:
                answer = ask("127.0.0.1", port, PATH)
                hosts.add(answer.headers["x-light-host"])
                if answer.status != 200:
                    bad.append(answer)
            except OSError as error:
                bad.append(error)
            time.sleep(1 / REQUESTS_PER_S)

    thread = threading.Thread(target=client)
    thread.start()
    try:
        wait_until(lambda: len(hosts) == 3, "all three replicas answer")
        run("docker", "kill", f"{name}-anomaly-2-1")
        killed = len(hosts)
        time.sleep(5)
    finally:
        stop.set()
        thread.join()
    assert killed == 3
    assert bad == []
