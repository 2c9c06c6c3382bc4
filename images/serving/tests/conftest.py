"""Real models and real server processes for the tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ascend_serving
import pytest
import requests

HERE = Path(__file__).parent
READY = re.compile(r"REST (http://\S+), health (http://\S+)")
START_LIMIT_S = 60.0


def python_environment(**extra: str) -> dict[str, str]:
    source = str(Path(ascend_serving.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "2", **extra}


class Server:
    """A server process on free ports."""

    def __init__(self, model: Path, *options: str, environment: dict[str, str]) -> None:
        self.command = [
            *(sys.executable, "-m", "ascend_serving", "serve", "--model-path", str(model)),
            *("--port", "0", "--health-port", "0", *options),
        ]
        self.process = subprocess.Popen(
            self.command, env=environment, stderr=subprocess.PIPE, text=True
        )
        self.log: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.rest = self.health = ""

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            if found := READY.search(line):
                self.rest, self.health = found.groups()
                self._ready.set()
        self._ready.set()

    def wait_ready(self) -> Server:
        assert self._ready.wait(START_LIMIT_S), self.log
        assert self.rest, self.log
        return self

    def url(self, tail: str = ":predict", name: str = "anomaly") -> str:
        return f"{self.rest}/v1/models/{name}{tail}"

    def predict(self, body: Any, tail: str = ":predict") -> requests.Response:
        return requests.post(self.url(tail), json=body, timeout=30)

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.health}{path}", timeout=10)

    def metric(self, name: str, **labels: str) -> float | None:
        """A sample of /metrics whose labels include the given ones."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith((f"{name}{{", f"{name} ")) and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        return None

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float = 30.0) -> int:
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def start_server() -> Iterator[StartServer]:
    """Starts servers that end with the module; `environment` adds variables."""
    servers: list[Server] = []

    def start(model: Path, *options: str, environment: dict[str, str] | None = None) -> Server:
        server = Server(model, *options, environment=python_environment(**(environment or {})))
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small models."""
    folder = tmp_path_factory.mktemp("toys")
    run_python(str(HERE / "toy_models.py"), str(folder))
    return folder


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample model, with the custom op where ascend_ops is installed."""
    return train(tmp_path_factory.mktemp("sample"), "--seed", "42", *op_options())


def op_options() -> tuple[str, ...]:
    script = "import ascend_ops.tensorflow"
    probe = subprocess.run(
        [sys.executable, "-c", script], env=python_environment(), capture_output=True, check=False
    )
    return () if probe.returncode == 0 else ("--no-custom-op",)


def train(out: Path, *options: str) -> Path:
    run_python("-m", "ascend_serving.train", "--out", str(out), *options)
    return out


def run_python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def train_model() -> Callable[..., Path]:
    """Runs `python -m ascend_serving.train --out DIR` with more options."""
    return train


@pytest.fixture(scope="session")
def needs_ops() -> None:
    """Skips where the custom-op library is not installed."""
    if op_options():
        pytest.skip("ascend_ops is not installed (pip install --no-build-isolation ./kernels)")


@pytest.fixture(scope="session")
def environment() -> Callable[..., dict[str, str]]:
    """The environment of a child process that finds this package."""
    return python_environment


def load_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Waits until a condition holds, for at most some seconds."""

    def wait(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            time.sleep(0.02)

    return wait
