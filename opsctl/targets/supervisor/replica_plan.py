"""Which replica is wanted, and what it needs of the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsctl.model import Role
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.launch import Household
from opsctl.targets.supervisor.tasks import Tasks


@dataclass(frozen=True)
class ReplicaPlan:
    """Which replica is wanted."""

    name: str
    release: str
    role: Role
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What replicas need of the supervisor."""

    household: Household
    tell: Tell
    tasks: Tasks
    changed: Callable[[], None]
    """Called when a replica's phase or process changed."""
    port_range: Callable[[], tuple[int, int]]
    taken_ports: Callable[[], set[int]]
    crashed: Callable[[str], None]
    """Called with a replica's name as soon as its process ended."""
