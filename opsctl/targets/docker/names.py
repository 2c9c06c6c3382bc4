"""What everything of a service is called on a Docker host, and the labels that tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SERVICE = "io.opsctl.service"
"""Label of everything that belongs to a service: its name on the host."""
PART = "io.opsctl.part"
RELEASE = "io.opsctl.release"
REPLICA = "io.opsctl.replica"
PORTS = "io.opsctl.ports"
"""`port health_port` of a replica."""
NPUS = "io.opsctl.npus"
"""Numbers of the NPUs that a replica holds."""
BUILD = "io.opsctl.build"
"""Digest of the opsctl that an agent's image holds."""

AGENT_PART = "agent"
BALANCER_PART = "balancer"
REPLICA_PART = "replica"
ERRAND_PART = "errand"
"""A container for one command (`Target.run_in`)."""

STATE_DIR = "/state"
"""Where the state volume is mounted, in agent and balancer alike."""
MODELS_DIR = "/models"
"""Where the volume of models is mounted, in the agent and, read-only, in replicas."""
DOCKER_SOCKET = "/var/run/docker.sock"


@dataclass(frozen=True)
class Names:
    """The names of one service on its host."""

    service: str

    @property
    def agent(self) -> str:
        return f"opsctl-{self.service}-agent"

    @property
    def balancer(self) -> str:
        return f"opsctl-{self.service}-balancer"

    @property
    def network(self) -> str:
        return f"opsctl-{self.service}"

    @property
    def state_volume(self) -> str:
        return f"opsctl-{self.service}"

    @property
    def run_volume(self) -> str:
        """What agent and balancer share: the balancer, which users reach, sees no secret."""
        return f"opsctl-{self.service}-run"

    @property
    def models_volume(self) -> str:
        return f"opsctl-{self.service}-models"

    def replica(self, name: str) -> str:
        """The container of a replica (`r12-1`)."""
        return f"opsctl-{self.service}-{name}"

    def labels(self, part: str, **more: str) -> dict[str, str]:
        """Labels of a part of the service."""
        return {SERVICE: self.service, PART: part, **more}

    def filters(self, part: str = "") -> dict[str, list[str]]:
        """Filters of the Docker API for everything of the service, or for one part."""
        wanted = [f"{SERVICE}={self.service}"]
        return {"label": [*wanted, f"{PART}={part}"] if part else wanted}


def replica_labels(names: Names, release: str, replica: str, ports: str) -> Mapping[str, str]:
    """Labels by which a new agent knows a replica again."""
    return names.labels(REPLICA_PART, **{RELEASE: release, REPLICA: replica, PORTS: ports})
