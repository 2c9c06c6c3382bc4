"""What must hold between the keys of target `docker`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from opsctl.config import containers as s

if TYPE_CHECKING:
    from opsctl.config.relations import Section

SERVICE_NAME = r"[a-z][-a-z0-9]{0,47}"
"""Room is left for `opsctl-` before it and a replica's name behind it."""


def docker(value: s.Docker, at: Section) -> None:
    """Check the section `docker`."""
    at.filled("host", value.host)
    at.filled("python", value.python)
    at.filled("agent_base", value.agent_base)
    if value.name is not None and not re.fullmatch(SERVICE_NAME, value.name):
        at.wrong("name", "allowed: a-z, 0-9 and -, a letter first, 48 characters at most")
    user = value.user.partition(":")[0]
    if value.user != "auto" and not re.fullmatch(r"[1-9][0-9]*(:[0-9]+)?", value.user):
        why = "replicas never run as root" if user in ("0", "root") else f'found "{value.user}"'
        at.wrong("user", f"{why}; allowed: auto, uid or uid:gid")


def ports_apart(value: s.Docker, used: Collection[str], at: Section) -> None:
    """One number for both ports is for a command that tells its health where it serves."""
    if value.replica_port == value.health_port and "health_port" in used:
        at.wrong(
            "docker.health_port",
            f"{value.health_port} is replica_port too, and {{health_port}} stands in app.command;"
            " allowed: another one",
        )


def npus(value: s.Npus, at: Section) -> None:
    """Check the section `docker.npus`."""
    if len(set(value.devices)) != len(value.devices):
        at.wrong("devices", "an NPU stands twice")
    elif value.devices and value.count > len(value.devices):
        at.wrong("count", f"{value.count} are more than the {len(value.devices)} in devices")
    if not value.driver_dir.startswith("/"):
        at.wrong("driver_dir", "allowed: an absolute path of the Docker host")
