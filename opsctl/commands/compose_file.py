"""A service of a compose file as opsctl.yaml says it: what can be taken over, and what can not.

Values that the file does not hold itself (variables, `env_file`) may be secrets: they are named,
never copied. Format: the Compose specification, as `docker compose config --format json` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opsctl.model import Json

MIB = 1024 * 1024
TAKEN = frozenset(
    ("command", "cpus", "deploy", "devices", "entrypoint", "environment", "env_file", "healthcheck",
     "image", "mem_limit", "ports", "runtime", "scale", "stop_grace_period", "user")
)  # fmt: skip
OWN = frozenset(
    ("cap_drop", "container_name", "init", "logging", "networks", "pids_limit", "privileged",
     "pull_policy", "read_only", "restart", "security_opt", "tmpfs", "stop_signal")
)  # fmt: skip
"""What opsctl decides itself for every replica."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?")
_HEALTH_URL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::(\d+))?(/[^\s'\"]*)?")
_CARD = re.compile(r"/dev/davinci(\d+)")
_RESERVED = "OPSCTL_"
"""Variables that opsctl sets itself, as in a compose file that it has rendered."""

_VISIBLE = "ASCEND_VISIBLE_DEVICES"


@dataclass
class Taken:
    """`service`: a service of opsctl.yaml. `notes`: what people must look at, one sentence each."""

    service: Json
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """A service of a compose file. `literal`: names of variables whose value stands in the file."""

    name: str
    data: Mapping[str, Any]
    literal: Collection[str]
    argv: Sequence[str]
    """The whole command, that of the image where the file names none."""


def take(found: Found) -> Taken:
    """What opsctl.yaml says of it."""
    command = [_escaped(_plain(word)) for word in found.argv]
    app = {"directory": ".", "command": command, "image": _plain(found.data["image"])}
    taken = Taken({"app": app})
    _take_environment(found, taken)
    docker = _take_ports(found, taken)
    for add in (_take_limits, _take_health, _take_cards):
        add(found, taken, docker)
    user = str(found.data.get("user") or "")
    if re.fullmatch(r"[1-9][0-9]*(:[0-9]+)?", user):
        docker["user"] = user
    elif user:
        taken.notes.append(f"user: {user} is no number, or root, which replicas never run as")
    taken.service["docker"] = docker
    taken.service["compose"] = _way_back(found, taken, docker)
    if docker.get("user"):
        taken.service["kubernetes"] = {"user_id": int(docker["user"].partition(":")[0])}
    taken.notes += _left(found)
    return taken


def seconds(text: str) -> float:
    """`1m30s` as seconds; 0 for what is no such text."""
    matched = _DURATION.fullmatch(text)
    hours, minutes, rest = matched.groups(default="0") if matched else ("0", "0", "0")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def _take_environment(found: Found, taken: Taken) -> None:
    """Values that stand in the file; the others by the name of opsctl's own variable."""
    given = found.data.get("environment") or {}
    ours = {n: v for n, v in given.items() if n != _VISIBLE and not n.startswith(_RESERVED)}
    plain = {n: _plain(v) for n, v in ours.items() if n in found.literal and v is not None}
    named = sorted(set(ours) - set(plain))
    app = taken.service["app"]
    if plain:
        app["env"] = plain
    if named:
        app["secrets"] = {name: {"env": name} for name in named}
        taken.notes.append(f"environment: {', '.join(named)} must be set where opsctl deploys")


def _take_ports(found: Found, taken: Taken) -> Json:
    """Where a replica listens, and where it tells its health."""
    ports = [one for one in found.data.get("ports") or () if one.get("protocol") != "udp"]
    if not ports:
        taken.notes.append("ports: none is published; say in docker.replica_port where it listens")
        return {}
    first, health = ports[0], _health(found)
    port = int(first["target"])
    if first.get("published"):
        taken.notes.append(
            f"ports: compose holds {first['published']}; set docker.port to it once compose is down"
        )
    return {
        "host": first.get("host_ip") or "0.0.0.0",
        "replica_port": port,
        "health_port": (health[0] if health else 0) or port,
    }


def _take_limits(found: Found, taken: Taken, docker: Json) -> None:
    data = found.data
    deploy = data.get("deploy") or {}
    limits = (deploy.get("resources") or {}).get("limits") or {}
    memory, cpus = limits.get("memory") or data.get("mem_limit"), limits.get("cpus")
    if memory:
        taken.service["resources"] = {"memory_mb": max(16, int(memory) // MIB)}
    if cpus or data.get("cpus"):
        docker["cpus_max"] = float(cpus or data["cpus"])
    replicas = deploy.get("replicas") or data.get("scale") or 1
    taken.service["replicas"] = int(replicas)
    if data.get("stop_grace_period"):
        taken.service["app"]["stop_timeout_s"] = seconds(str(data["stop_grace_period"])) or 10.0


def _take_health(found: Found, taken: Taken, docker: Json) -> None:
    health = _health(found)
    if health is None:
        taken.service["health"] = {"path": "/", "live_path": "/"}
        taken.notes.append("healthcheck: no URL was found in it; health.path is / until you say")
    else:
        taken.service["health"] = {"path": health[1], "live_path": health[1]}


def _way_back(found: Found, taken: Taken, docker: Json) -> Json:
    """`compose`, so that `opsctl render compose` gives a file of the same shape."""
    npus = docker.get("npus") or {}
    back: Json = {
        "replicas": taken.service["replicas"],
        "cards": npus.get("count", 0),
        "npu": npus.get("access", "runtime"),
        "health_path": taken.service["health"]["path"],
    }
    published = [one["published"] for one in found.data.get("ports") or () if one.get("published")]
    if published and published[0].isdecimal():
        back["port"] = int(published[0])
    if "resources" in taken.service:
        back["memory_limit_mb"] = back["memory_reserved_mb"] = taken.service["resources"][
            "memory_mb"
        ]
    return back


def _health(found: Found) -> tuple[int, str] | None:
    """Port (0: not said) and path that the health check asks."""
    check = found.data.get("healthcheck") or {}
    words = check.get("test") or ()
    matched = _HEALTH_URL.search(words if isinstance(words, str) else " ".join(words))
    return (int(matched[1] or 0), matched[2] or "/") if matched else None


def _take_cards(found: Found, taken: Taken, docker: Json) -> None:
    """NPUs by device nodes, or by the variable of the runtime `ascend`."""
    nodes = [one["source"] for one in found.data.get("devices") or () if isinstance(one, dict)]
    cards = sorted(int(m[1]) for m in map(_CARD.fullmatch, nodes) if m)
    access = "devices"
    visible = str((found.data.get("environment") or {}).get(_VISIBLE) or "")
    if not cards and re.fullmatch(r"\d+(,\d+)*", visible):
        cards, access = sorted(map(int, visible.split(","))), "runtime"
    elif visible and not cards:
        taken.notes.append(f"{_VISIBLE}={visible}: say in docker.npus which NPUs replicas have")
    if cards:
        docker["npus"] = {"count": len(cards), "devices": cards, "access": access}


def _left(found: Found) -> Iterator[str]:
    """What is not taken over."""
    for volume in found.data.get("volumes") or ():
        source, target = volume.get("source", ""), volume.get("target", "")
        yield (
            f"volumes: {source or 'a new one'} at {target} is not taken over; a model belongs to"
            " the release (model.path, {model} in the command), other files into the image"
        )
    for key in sorted(set(found.data) - TAKEN - OWN - {"volumes"}):
        if found.data[key]:
            yield f"{key}: is not taken over"


def _plain(value: object) -> str:
    """As compose means it: it writes $ twice."""
    return str(value).replace("$$", "$")


def _escaped(word: str) -> str:
    """Braces that are no placeholder of opsctl's."""
    return word.replace("{", "{{").replace("}", "}}")


def literal_names(environment: object) -> frozenset[str]:
    """Names of an `environment` as written in the file whose values hold no variable."""
    pairs: list[tuple[str, object]] = []
    if isinstance(environment, dict):
        pairs = list(environment.items())
    elif isinstance(environment, list):
        parts = [str(item).partition("=") for item in environment]
        pairs = [(name, value if equals else None) for name, equals, value in parts]
    return frozenset(str(n) for n, v in pairs if v is not None and not _has_variable(str(v)))


def _has_variable(text: str) -> bool:
    return "$" in text.replace("$$", "")
