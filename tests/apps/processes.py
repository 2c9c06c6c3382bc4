"""The light service and the client as real processes of a test."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from opsctl import shell
from tests.apps.project import APPS, LightProject, ServiceProject

START_MAX_S = 60.0
"""On a machine that is very busy."""

STOP_MAX_S = 60.0


def wait_until(done: Callable[[], bool], what: str, timeout_s: float = START_MAX_S) -> None:
    """Ask `done` until it is true. Raises TimeoutError that says `what` did not happen."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} within {timeout_s} s")
        time.sleep(0.005)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> int:
    """Send a signal to a process of ours and reap it; its exit code."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    return process.wait(STOP_MAX_S)


@dataclass
class Running:
    """A process that ends with the block."""

    process: subprocess.Popen[bytes]
    log: Path

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end(self.process)


def start(argv: list[str], cwd: Path, log: Path) -> Running:
    """Start a process with this environment less opsctl's own variables."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPSCTL_")}
    return Running(shell.spawn(argv, cwd=cwd, env=env, log=log), log)


def start_light(project: LightProject, ports: tuple[int, int], release: str = "r1") -> Running:
    """One replica of the project's service on (service, health) ports, by hand."""
    argv = [
        *(sys.executable, "-S", "-E", "light.py", "--port", str(ports[0])),
        *("--health-port", str(ports[1]), "--model", str(project.root / "model")),
        *("--release", release, "--work-ms", str(project.options.work_ms)),
    ]
    return start(argv, project.root / "app", project.root / f"light-{release}.log")


def get(port: int, path: str) -> int:
    """Status of a GET; 0 when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def text_of(port: int, path: str) -> str:
    """Body of the answer to a GET."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as door:
        door.request("GET", path)
        return door.getresponse().read().decode()


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, in seconds (proc(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def least_cpu_s(*argv: str) -> float:
    """CPU time in seconds of the cheapest of five runs of a program: a measure of the machine."""
    runs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shell.run(argv, timeout_s=START_MAX_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        runs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(runs)


def post(port: int, path: str, body: Any, host: str = "127.0.0.1") -> tuple[int, Any]:
    """Status and JSON answer of a POST."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@dataclass
class ClientRun(Running):
    """The open-loop client at work."""

    out: Path

    def __enter__(self) -> ClientRun:
        return self

    def stop(self) -> dict[str, Any]:
        """End it in order; what it saw. Raises RuntimeError when it died."""
        code = end(self.process, signal.SIGTERM)
        if code != 0:
            raise RuntimeError(f"the client ended with {code}: {self.log.read_text()[-2000:]}")
        return dict(json.loads(self.out.read_text()))


def start_client(
    project: ServiceProject,
    folder: Path,
    *,
    rate: float = 200.0,
    arrivals: str = "constant",
    within: Sequence[str] = (),
) -> ClientRun:
    """The client on the project's front door; returns when its connections stand.

    `within` goes before its command line: what runs a command in another place.
    """
    out, log = folder / "client.json", folder / "client.log"
    out.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    argv = [
        *(*within, sys.executable, "-S", "-E", str(APPS / "client.py"), "--url", project.url),
        *("--requests", str(project.requests), "--out", str(out)),
        *("--rate", str(rate), "--arrivals", arrivals),
    ]
    run = start(argv, folder, log)

    def is_ready() -> bool:
        if run.process.poll() is not None:
            raise RuntimeError(f"the client did not start: {log.read_text()[-2000:]}")
        return log.read_bytes().startswith(b"ready")

    wait_until(is_ready, "the client had its connections")
    return ClientRun(run.process, log, out)
