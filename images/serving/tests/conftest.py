"""Real models and real server processes for the tests."""

from __future__ import annotations

import importlib.util
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
START_LIMIT_S = 120.0


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
        return requests.post(self.url(tail), json=body, timeout=120)

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.health}{path}", timeout=60)

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

    def wait(self, timeout_s: float = 60.0) -> int:
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
    spec = importlib.util.find_spec("ascend_ops")
    folders = spec.submodule_search_locations if spec else None
    built = any((Path(folder) / "libascend_tensorflow.so").is_file() for folder in folders or ())
    return () if built else ("--no-custom-op",)


def train(out: Path, *options: str) -> Path:
    run_python("-m", "ascend_serving.train", "--out", str(out), *options)
    return out


def run_python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def train_model() -> Callable[..., Path]:
    """Runs `python -m ascend_serving.train --out DIR` with more options."""
    return train


@pytest.fixture(scope="session")
def run_train() -> Callable[..., tuple[int, str]]:
    """Runs a train command that may fail; its exit code and stderr."""

    def run(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ascend_serving.train", *options],
            env=python_environment(),
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        return done.returncode, done.stderr

    return run


@pytest.fixture(scope="session")
def fake_acl() -> Any:
    """The module fake_acl.py: pyACL's functions on the host, with the device's rules."""
    spec = importlib.util.spec_from_file_location("fake_acl", HERE / "fake_acl.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def needs_ops() -> None:
    """Skips where the custom-op library is not installed."""
    if op_options():
        pytest.skip("ascend_ops is not installed (pip install --no-build-isolation ./kernels)")


@pytest.fixture(scope="session")
def environment() -> Callable[..., dict[str, str]]:
    """The environment of a child process that finds this package."""
    return python_environment


@pytest.fixture(scope="session")
def load_json() -> Callable[[Path], Any]:
    """Reads a JSON file."""
    return lambda path: json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Waits until a condition holds, for at most some seconds."""

    def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            time.sleep(0.02)

    return wait
