"""How a replica of a release is started: command, directory, environment, limits."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsctl.config import placeholders
from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.procfs import REPLICA_MARK, SERVICE_MARK

LOOPBACK = "127.0.0.1"

BASE_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH")
"""What a replica inherits from opsctl's own environment; everything else is declared."""


@dataclass(frozen=True)
class HealthRule:
    """When a replica counts as healthy (the keys of `health` in opsctl.yaml)."""

    path: str = "/health/ready"
    live_path: str = "/health/live"
    interval_s: float = 2.0
    timeout_s: float = 2.0
    streak: int = 3
    max_restarts: int = 3

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HealthRule:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


@dataclass(frozen=True)
class Launch:
    """The `launch` part of a release.json, with the secrets' values."""

    release: str
    command: tuple[str, ...]
    python: str
    directory: Path
    model_path: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    memory_mb: int | None = None
    cpus: tuple[int, ...] = ()
    stop_timeout_s: float = 30.0
    health: HealthRule = HealthRule()
    image: str = ""
    """What a container of it is made of, by digest; empty where replicas are processes."""
    container: Mapping[str, Any] = field(default_factory=dict)
    """Limits and devices of its containers (opsctl.targets.docker.container)."""

    @property
    def listen_host(self) -> str:
        """Where a replica is to listen: a container's own address is not known before its start."""
        return "0.0.0.0" if self.image else LOOPBACK

    def redacted(self, text: str) -> str:
        """`text` with the values of secrets struck out."""
        for value in self.secrets.values():
            if len(value) >= 4:
                text = text.replace(value, "***")
        return text


@dataclass(frozen=True)
class Seat:
    """Which replica of a release, and where it answers."""

    name: str
    port: int
    health_port: int
    host: str = LOOPBACK


def load(layout: Layout, release: str) -> Launch:
    """Read a release and its secrets. Raises TargetUnreachable when the files are not there."""
    path = layout.release_file(release)
    try:
        data = json.loads(path.read_text())["launch"]
        secrets = _secrets(layout, release, data["secrets"])
    except (OSError, ValueError, KeyError) as error:
        raise TargetUnreachable(
            f"release {release} can't be read from {path.parent}",
            why=str(error),
            next_step="Deploy again, or roll back to a release of: opsctl releases list",
        ) from error
    return of_dict(release, data, secrets)


def of_dict(release: str, data: Mapping[str, Any], secrets: Mapping[str, str]) -> Launch:
    """The `launch` part of a release.json with the values of its secrets."""
    return Launch(
        release=release,
        command=tuple(data["command"]),
        python=data["python"] or sys.executable,
        directory=Path(data["directory"]),
        model_path=data["model_path"],
        env=data["env"],
        secrets=secrets,
        memory_mb=data["memory_mb"],
        cpus=tuple(data["cpus"]),
        stop_timeout_s=data["stop_timeout_s"],
        health=HealthRule.from_dict(data["health"]),
        image=data.get("image", ""),
        container=data.get("container", {}),
    )


def _secrets(layout: Layout, release: str, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {}
    stored = json.loads(layout.secrets_file(release).read_text())
    return {name: stored[name] for name in names}


def _values(launch: Launch, seat: Seat) -> dict[str, str]:
    return {
        "python": launch.python,
        "host": launch.listen_host,
        "port": str(seat.port),
        "health_port": str(seat.health_port),
        "model": launch.model_path,
        "release": launch.release,
        "replica": seat.name,
    }


def command(launch: Launch, seat: Seat) -> list[str]:
    """The replica's command with its placeholders filled in."""
    values = _values(launch, seat)
    return [placeholders.fill(word, values) for word in launch.command]


def fill(words: Sequence[str], launch: Launch, seat: Seat) -> list[str]:
    """Any other command for this release: known placeholders filled, other braces untouched."""
    values = _values(launch, seat)
    pattern = re.compile("{(" + "|".join(values) + ")}")
    return [pattern.sub(lambda match: values[match[1]], word) for word in words]


@dataclass(frozen=True)
class Household:
    """What all replicas of a service share."""

    service: str
    environment: str
    layout: Layout
    base_env: Mapping[str, str]


def environment(launch: Launch, seat: Seat, household: Household) -> dict[str, str]:
    """The whole environment of a replica."""
    base = {name: household.base_env[name] for name in BASE_VARIABLES if name in household.base_env}
    return {
        **base,
        **launch.env,
        **launch.secrets,
        "OPSCTL_SERVICE": household.service,
        "OPSCTL_ENVIRONMENT": household.environment,
        "OPSCTL_RELEASE": launch.release,
        REPLICA_MARK: seat.name,
        "OPSCTL_HOST": launch.listen_host,
        "OPSCTL_PORT": str(seat.port),
        "OPSCTL_HEALTH_PORT": str(seat.health_port),
        "OPSCTL_MODEL_PATH": launch.model_path,
        SERVICE_MARK: str(household.layout.service_dir),
    }


def command_environment(launch: Launch, seat: Seat, household: Household) -> dict[str, str]:
    """Environment of a command run for a release: a replica's, less the mark of replicas."""
    whole = environment(launch, seat, household)
    del whole[SERVICE_MARK]
    return whole


def answers_on_one_port(launch: Launch) -> bool:
    """Whether the command takes {port} alone: health is then asked for on the service port."""
    words = " ".join((*launch.command, *launch.env.values()))
    return "{port}" in words and "{health_port}" not in words
