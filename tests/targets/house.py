"""A service for tests: its project, its releases, and a target that orders states by number."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opsctl.config import settings
from opsctl.model import DesiredState, Guard, Observed, Share, Stamp
from opsctl.targets.local import LocalTarget
from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.layout import Layout

APP = Path(__file__).with_name("app.py")
WAIT_MAX_S = 60.0
"""On a machine that is ten times slower, and busy."""

HEALTH = {
    "path": "/health/ready",
    "live_path": "/health/live",
    "tries": 30,
    "interval_s": 0.05,
    "timeout_s": 1.0,
    "streak": 2,
    "max_restarts": 3,
}


def project_in(root: Path, name: str = "svc", **local: Any) -> settings.Project:
    """A project whose service listens on the first free port."""
    local = {"port": "auto", **local}
    service = settings.Service(
        app=settings.App(directory="app", command=("{python}", "app.py")),
        strategy=settings.Strategy(drain_timeout_s=5.0),
        local=settings.Local(**local),
    )
    config = settings.Config(services={name: service})
    root.mkdir(parents=True, exist_ok=True)
    return settings.Project(root / "opsctl.yaml", config, "test", name, service, "local")


class House:
    """One service of one project, with everything that a test asks of it."""

    def __init__(self, project: settings.Project) -> None:
        self.project = project
        self.target = LocalTarget(project)
        self.layout = Layout(project.service_dir)
        self.epoch = 1
        self.sequence = 0

    def release(self, name: str, **changes: Any) -> str:
        """Put a release into the store; keywords replace keys of `launch`."""
        launch: dict[str, Any] = {
            "command": ["{python}", str(APP)],
            "python": sys.executable,
            "directory": str(self.layout.release_dir(name) / "app"),
            "model_path": "",
            "env": {},
            "secrets": [],
            "memory_mb": None,
            "cpus": [],
            "stop_timeout_s": 5.0,
            "health": HEALTH,
        }
        launch.update(changes)
        Path(launch["directory"]).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"name": name, "digest": name, "created": 0, "launch": launch})
        self.layout.release_file(name).write_text(text)
        return name

    def secrets(self, release: str, values: Mapping[str, str]) -> None:
        path = self.layout.secrets_file(release)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(json.dumps(values))
        path.chmod(0o600)

    def apply(self, *shares: Share, safe: DesiredState | None = None, **guard: Any) -> None:
        """Order a state; it is its own safe state unless another one is given."""
        self.sequence += 1
        state = DesiredState(shares)
        self.target.apply(
            state,
            Stamp(self.epoch, self.sequence, f"hash-{self.sequence}"),
            Guard(state if safe is None else safe, **guard),
        )

    def state(self, replicas: int, **share: Any) -> DesiredState:
        """A state with one release without traffic."""
        return DesiredState((Share("r1", replicas, 0, **share),))

    def converge(self, *shares: Share, timeout_s: float = WAIT_MAX_S, **more: Any) -> Observed:
        """Order a state and stay in charge until it is reached."""
        self.apply(*shares, **more)

        def converged(seen: Observed) -> bool:
            self.target.renew(self.epoch)
            return seen.converged

        return self.wait(converged, timeout_s)

    def wait(
        self, condition: Callable[[Observed], object], timeout_s: float = WAIT_MAX_S
    ) -> Observed:
        """Watch until `condition` holds; fails with what was seen last.

        It may speak of `replicas[0]`: one that is not there yet fulfils nothing.
        """
        limit = time.monotonic() + timeout_s
        while True:
            seen = self.target.observe()
            with contextlib.suppress(IndexError):
                if condition(seen):
                    return seen
            if time.monotonic() > limit:
                tail = "\n".join(self.all_events()[-30:])
                raise AssertionError(f"never came true; {seen}\nevents:\n{tail}")
            time.sleep(0.02)

    def all_events(self) -> list[str]:
        if not self.layout.events_file.exists():
            return []
        lines = self.layout.events_file.read_text().splitlines()
        return [json.loads(line)["text"] for line in lines]

    def ask(self, path: str = "/", method: str = "POST", body: str = "{}") -> tuple[int, str, Any]:
        """One request through the front door: status, X-Opsctl-Release, JSON answer."""
        door = self.target.front_door()
        return ask(door.host, door.port, path, method, body)

    def releases_that_answer(self, count: int) -> dict[str, int]:
        """How many of `count` requests each release answered."""
        door = self.target.front_door()
        connection = http.client.HTTPConnection(door.host, door.port, timeout=10)
        found: dict[str, int] = {}
        for _ in range(count):
            connection.request("POST", "/", "{}")
            response = connection.getresponse()
            release = response.headers["X-Opsctl-Release"]
            assert json.loads(response.read())["release"] == release
            found[release] = found.get(release, 0) + 1
        connection.close()
        return found

    def control(self, replica: str, **order: int) -> None:
        """Give an order to one replica's application."""
        seen = next(r for r in self.target.observe().replicas if r.name == replica)
        try:
            ask(seen.host, seen.port, "/control", "POST", json.dumps(order))
        except (OSError, http.client.HTTPException):
            assert {"exit", "fade", "grow_mb"} & set(order)  # orders that may end it

    def supervisor_pid(self) -> int:
        return int(self.layout.pid_file.read_text())

    def cut_the_power(self) -> None:
        """End all processes of the service at one moment; returns when none is left.

        One that was sent SIGKILL lives for another moment, in which it can still be met.
        """
        victims = (keeper_of(self.supervisor_pid()), *self.processes())
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        limit = time.monotonic() + WAIT_MAX_S
        while any(procfs.identity(pid) for pid in victims):
            assert time.monotonic() < limit, victims
            time.sleep(0.01)

    def processes(self) -> list[int]:
        """Every process that has this service's directory in its command line or environment."""
        word = str(self.layout.service_dir).encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if word in environ or word in line:
                found.append(int(entry))
        return found


def ask(host: str, port: int, path: str, method: str, body: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        text = response.read()
        release = response.headers.get("X-Opsctl-Release", "")
        is_json = response.headers.get("Content-Type") == "application/json"
        return response.status, release, json.loads(text) if is_json else text.decode()
    finally:
        connection.close()


def keeper_of(pid: int) -> int:
    """The parent of a supervisor, which starts another one when it ends."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def with_health(**changes: Any) -> dict[str, Any]:
    """The tests' health rule with some keys replaced."""
    return {**HEALTH, **changes}


def with_local(project: settings.Project, **changes: Any) -> settings.Project:
    """The project with other settings of target `local`."""
    local = dataclasses.replace(project.service.local, **changes)
    return dataclasses.replace(project, service=dataclasses.replace(project.service, local=local))
