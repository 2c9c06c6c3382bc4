"""Target `local` as a stage of the contract tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from tests.targets.house import House, project_in


class LocalStage:
    """Processes of this machine."""

    epoch = 0
    retries = True

    def __init__(self, folder: Path) -> None:
        self.house = House(project_in(folder))
        self.target = self.house.target

    def release(self, name: str, **env: str) -> str:
        return self.house.release(name, env=env)

    def ask(self, path: str = "/", body: str = "{}") -> tuple[int, str]:
        return self.house.ask(path, body=body)[:2]

    def called(self, replicas: Iterable[str]) -> list[str]:
        return list(replicas)

    def begins(self, event: str, replica: str) -> bool:
        return f"{replica} started" in event

    def kill_a_replica(self, release: str) -> None:
        os.kill(self.target.observe().of(release)[0].pid, signal.SIGKILL)

    def left_over(self) -> list[str]:
        folder = self.house.layout.service_dir
        held = {"run", "logs", "releases", "models", "secrets"}
        files = [path.name for path in folder.iterdir() if path.name in held]
        return [*map(str, self.house.processes()), *files]

    def clear(self) -> None:
        """Leave nothing, by force."""
        while pids := self.house.processes():
            for pid in sorted(pids):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
