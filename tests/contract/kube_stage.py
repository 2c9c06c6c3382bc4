"""Target `kubernetes` as a stage of the contract tests, on a real node and a Gateway."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opsctl.clock import SystemClock
from opsctl.render.service_values import pod_values
from opsctl.targets.kubernetes.names import Names
from opsctl.targets.kubernetes.target import KubernetesTarget
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import Cluster
from tests.kubernetes.guard_image import copy_program, python_root
from tests.kubernetes.projects import project
from tests.targets.house import APP, ask

EPOCHS = 100
"""More than any test uses."""

SURROUNDINGS = {"OPSCTL_HOST": "0.0.0.0", "OPSCTL_PORT": "8501", "OPSCTL_HEALTH_PORT": "8080"}


def app_image(cluster: Cluster, folder: Path) -> str:
    """An image with the test application, and with all that the guard needs; by digest."""
    python_root(folder)
    shutil.copy(APP, folder / "app.py")
    for program in ("/bin/sh", "/usr/bin/env"):
        copy_program(folder, Path(program))
    return cluster.order("image", "contract:1", str(folder), "/usr/bin/python3").strip()


class KubeStage:
    """Pods of this checkout's cluster, in a namespace of their own."""

    clock = SystemClock()
    epoch = 0
    retries = False
    """Neither a Service nor an HTTPRoute of the standard channel asks a second replica."""

    def __init__(self, cluster: Cluster, image: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.image = image
        self.cluster = cluster
        self._stack = contextlib.ExitStack()
        self.namespace = self._stack.enter_context(cluster.namespace(f"t-{secrets.token_hex(4)}"))
        self._stack.enter_context(traefik(cluster, self.namespace, folder))
        settings = {
            "namespace": self.namespace, "helm": cluster.variables["CLUSTER_HELM4"],
            "guard_image": image, "traffic": "route", "gateway": {"name": "front"},
            "service_type": "ClusterIP", "pre_stop_s": 1, "memory_mb": 64,
        }  # fmt: skip
        health = {"interval_s": 1.0, "tries": 300}
        self.project = project(folder, image, settings, health=health)
        self.target = KubernetesTarget(self.project)
        self.target.storage.prepare()

    def release(self, name: str, **env: Any) -> str:
        """Keywords are variables of the application."""
        names = Names.of(self.project)
        pod = pod_values(self.project.service, name, names.secret(name))
        pod["command"] = ["/usr/bin/python3", "/app.py"]
        pod["env"] = {**SURROUNDINGS, **env}
        launch = {"image": self.image, "model_path": "", "container": {"base": "", "pod": pod}}
        release = {"name": name, "digest": name, "created": 0, "launch": launch}
        self.target.storage.write(f"releases/{name}/release.json", json.dumps(release).encode())
        self.target.known_releases.pop(name, None)
        return name

    def ask(self, path: str = "/", body: str = "{}") -> tuple[int, str]:
        door = self.target.front_door()
        status, _, answer = ask(door.host, door.port, path, "POST", body)
        return status, answer["release"] if status == 200 else ""

    def called(self, replicas: Iterable[str]) -> list[str]:
        """Pods have names by chance: `light-r1-5d8f-x2v` is the first of r1, in their order."""
        seen: Counter[str] = Counter()
        found = []
        for name in replicas:
            _, release, *rest = name.split("-")
            head = f"{release}-b" if rest[0] == "baseline" else f"{release}-"
            seen[head] += 1
            found.append(f"{head}{seen[head]}")
        return found

    def begins(self, event: str, replica: str) -> bool:
        return f" {replica} Started: " in event

    def kill_a_replica(self, release: str) -> None:
        name = self.target.observe().of(release)[0].name
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"OPSCTL_REPLICA={name}" in _environment(entry):
                    os.kill(int(entry.name), signal.SIGKILL)

    def left_over(self) -> list[str]:
        kinds = "deployments,services,pods,httproutes,poddisruptionbudgets,secrets"
        found = self.cluster.get(kinds, "-n", self.namespace)["items"]
        return [one["metadata"]["name"] for one in found if "light" in one["metadata"]["name"]]

    def empty(self) -> None:
        """Take everything down; the next test's epochs are newer."""
        self.epoch += EPOCHS
        self.target.down(self.epoch)

    def clear(self) -> None:
        """Leave nothing."""
        self._stack.close()


def _environment(entry: Path) -> list[str]:
    return (entry / "environ").read_bytes().decode(errors="replace").split("\0")
