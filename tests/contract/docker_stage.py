"""Target `docker` as a stage of the contract tests, on a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opsctl.clock import SystemClock
from opsctl.targets.docker.names import AGENT_PART, PART
from tests.docker import bench_yard
from tests.targets.house import HEALTH, ask

EPOCHS = 100
"""More than any test uses."""


class DockerStage:
    """Containers of this machine's engine."""

    clock = SystemClock()
    epoch = 0
    retries = True

    def __init__(self, folder: Path) -> None:
        self.host = bench_yard.host_or_skip()
        self.image = self.host.app_image()
        self.target = self.host.target(folder, image=self.image)
        self.target.storage.prepare()

    def release(self, name: str, **env: Any) -> str:
        """Keywords replace keys of `launch` where it has them; others are variables."""
        launch: dict[str, Any] = {
            "command": ["{python}", "/app/app.py"], "python": "python3", "directory": "",
            "model_path": "", "env": {}, "secrets": [], "memory_mb": None, "cpus": [],
            "stop_timeout_s": 5.0, "health": HEALTH, "image": self.image,
            "container": {"user": "10001:10001", "port": 8501, "health_port": 8502,
                          "image_health": True},
        }  # fmt: skip
        launch |= {key: value for key, value in env.items() if key in launch}
        launch["env"] = {key: value for key, value in env.items() if key not in launch}
        release = {"name": name, "digest": name, "created": 0, "launch": launch}
        self.target.storage.write(f"releases/{name}/release.json", json.dumps(release).encode())
        return name

    def ask(self, path: str = "/", body: str = "{}") -> tuple[int, str]:
        door = self.target.front_door()
        return ask(door.host, door.port, path, "POST", body)[:2]

    def called(self, replicas: Iterable[str]) -> list[str]:
        return list(replicas)

    def begins(self, event: str, replica: str) -> bool:
        return f"{replica} started" in event

    def kill_a_replica(self, release: str) -> None:
        name = self.target.observe().of(release)[0].name
        self.target.engine.api.kill(self.target.names.replica(name))

    def left_over(self) -> list[str]:
        api, names = self.target.engine.api, self.target.names
        containers = api.containers(all=True, filters=names.filters())
        found = [one["Names"][0] for one in containers if one["Labels"][PART] != AGENT_PART]
        held = {"logs", "releases", "secrets", "tls"}
        return [*found, *(name for name in self.target.storage.names("") if name in held)]

    def empty(self) -> None:
        """Take everything down; the agent stays for the next test, whose epochs are newer."""
        self.epoch += EPOCHS
        self.target.down(self.epoch)

    def clear(self) -> None:
        """Leave nothing."""
        self.target.storage.destroy()
        self.target.close()
        self.host.engine.close()
