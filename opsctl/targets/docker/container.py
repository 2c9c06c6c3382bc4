"""How a replica's container is made: a release's launch settings as the Engine API wants them.

Pure. Keys are those of `POST /containers/create` (Docker Engine API 1.41).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsctl.model import Json
from opsctl.targets.docker import names as naming
from opsctl.targets.docker.names import Names

MIB = 1024 * 1024
HEALTH_EVERY_S = 30
"""Docker's own check is for people who look at `docker ps`; the agent probes far more often."""


@dataclass(frozen=True)
class Limits:
    """What a container of a service may use: the `container` part of a release's launch."""

    user: str
    """Never root; `uid:gid`."""
    port: int
    health_port: int
    cpus_max: float | None = None
    pids_max: int = 4096
    tmp_mb: int = 64
    log_max_mb: int = 20
    log_files: int = 5
    image_health: bool = False
    """Whether the image has a health check of its own."""
    npus: Mapping[str, Any] = field(default_factory=dict)
    """How replicas get NPUs (opsctl.targets.docker.npus); empty without any."""

    def to_dict(self) -> Json:
        return {**self.__dict__, "npus": dict(self.npus)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limits:
        """Keys of another version are dropped."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


@dataclass(frozen=True)
class Recipe:
    """One container of a release."""

    image: str
    command: Sequence[str]
    env: Mapping[str, str]
    labels: Mapping[str, str]
    limits: Limits
    memory_mb: int | None = None
    cpus: Sequence[int] = ()
    directory: str = ""
    health: Sequence[str] = ()
    """Docker's own health check, for an image that has none; empty: none."""


def config_of(recipe: Recipe, names: Names, network: str, devices: Mapping[str, Any]) -> Json:
    """The body of `POST /containers/create`. `devices` is merged into its HostConfig."""
    env = {**recipe.env, **devices.get("Env", {})}
    config: Json = {
        "Image": recipe.image,
        "Entrypoint": [recipe.command[0]],
        "Cmd": list(recipe.command[1:]),
        "Env": [f"{name}={value}" for name, value in env.items()],
        "User": recipe.limits.user,
        "Labels": dict(recipe.labels),
        "StopSignal": "SIGTERM",
        "HostConfig": _host_config(recipe, names, network, devices),
    }
    if recipe.directory:
        config["WorkingDir"] = recipe.directory
    if recipe.health:
        config["Healthcheck"] = _healthcheck(recipe.health)
    return config


def _host_config(recipe: Recipe, names: Names, network: str, devices: Mapping[str, Any]) -> Json:
    limits = recipe.limits
    host: Json = {
        "NetworkMode": network,
        # The agent alone restarts replicas: a daemon that did it too would bring back, after a
        # reboot, a candidate that the guard had taken off.
        "RestartPolicy": {"Name": "no"},
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={limits.tmp_mb}m"},
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "PidsLimit": limits.pids_max,
        "LogConfig": log_config(limits.log_max_mb, limits.log_files),
        "Mounts": [
            {
                "Type": "volume", "Source": names.models_volume,
                "Target": naming.MODELS_DIR, "ReadOnly": True,
            },
            *devices.get("Mounts", ()),
        ],
    }  # fmt: skip
    if recipe.memory_mb is not None:
        # Swap as much as memory: none. A service that swaps misses every limit on latency.
        host["Memory"] = host["MemorySwap"] = recipe.memory_mb * MIB
    if limits.cpus_max is not None:
        host["NanoCpus"] = round(limits.cpus_max * 1e9)
    if recipe.cpus:
        host["CpusetCpus"] = ",".join(map(str, recipe.cpus))
    return {**host, **{k: v for k, v in devices.items() if k not in ("Env", "Mounts")}}


def working_dir(directory: Path) -> str:
    """A release's directory inside its image; empty for the image's own."""
    return "" if directory == Path() else str(directory)


def log_config(max_mb: int, files: int) -> Json:
    """Docker's json-file driver with a bound on its size."""
    return {
        "Type": "json-file",
        "Config": {"max-size": f"{max_mb}m", "max-file": str(files + 1)},
    }


def python_health(python: str, port: int, path: str) -> list[str]:
    """A health check by the Python that the image needs anyway."""
    code = (
        "import sys, urllib.request as u;"
        f"sys.exit(u.urlopen('http://127.0.0.1:{port}{path}', timeout=5).status != 200)"
    )
    return [python, "-c", code]


def _healthcheck(command: Sequence[str]) -> Json:
    second = 1_000_000_000
    return {
        "Test": ["CMD", *command],
        "Interval": HEALTH_EVERY_S * second,
        "Timeout": 10 * second,
        "StartPeriod": 60 * second,
        "Retries": 3,
    }
