"""A real Prometheus on loopback that scrapes what a test tells it to."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from opsctl.model import Endpoint

CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: arms
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
"""

START_LIMIT_S = 60.0


@dataclass(frozen=True)
class RunningPrometheus:
    """The server and the file that names its targets."""

    url: str
    targets: Path
    process: subprocess.Popen[bytes]

    def scrape(self, *endpoints: Endpoint) -> None:
        """Scrape these from now on, and wait until each has been scraped."""
        names = [f"{one.host}:{one.port}" for one in endpoints]
        self.watch(names)
        self._wait(lambda: set(names) <= self._instances("up == 1"))

    def watch(self, names: list[str]) -> None:
        """Scrape these (HOST:PORT) from now on, whether or not somebody answers there."""
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps([{"targets": names}]))
        fresh.replace(self.targets)

    def await_metric(self, name: str) -> None:
        """Wait until somebody has told a value of this metric."""
        self._wait(lambda: self._instances(name))

    def _wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "Prometheus does not scrape"
            time.sleep(0.1)

    def _instances(self, query: str) -> set[str]:
        answer = requests.get(f"{self.url}/api/v1/query", {"query": query}, timeout=10)
        return {str(one["metric"]["instance"]) for one in answer.json()["data"]["result"]}


@contextmanager
def prometheus(folder: Path) -> Iterator[RunningPrometheus]:
    """A server with an empty store; it is gone afterwards. Skips where it is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs prometheus (Debian package prometheus)")
    (folder / "prometheus.yml").write_text(CONFIG)
    (folder / "targets.json").write_text("[]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *arguments], stdout=log, stderr=log, cwd=folder)
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/-/ready", process)
        yield RunningPrometheus(f"http://127.0.0.1:{port}", folder / "targets.json", process)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "Prometheus ended"
        try:
            if requests.get(url, timeout=2).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError("Prometheus does not start")


def exposed(values: dict[str, float]) -> str:
    """Gauges in Prometheus' text format."""
    lines = [f"# TYPE {name} gauge\n{name} {value}\n" for name, value in values.items()]
    return "".join(lines)
