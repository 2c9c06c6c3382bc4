"""Starting the process of a replica: where it is to answer, and on which CPUs it runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection

from opsctl import shell
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor import ports
from opsctl.targets.supervisor.launch import Household, Launch, Seat
from opsctl.targets.supervisor.replica_plan import ReplicaPlan, Surroundings


def seat_for(old: Seat, launch: Launch, around: Surroundings) -> Seat:
    """The old ports when they are free, so that the balancer need not change; else new ones.

    Raises TargetUnreachable when no port is free.
    """
    if old.port and all(map(ports.is_free, {old.port, old.health_port})):
        return old
    low, high = around.port_range()
    taken = around.taken_ports()
    port = ports.choose(low, high, taken)
    health_port = port
    if not launching.answers_on_one_port(launch):
        health_port = ports.choose(low, high, taken | {port})
    return Seat(old.name, port, health_port)


def spawn(
    plan: ReplicaPlan, launch: Launch, seat: Seat, household: Household
) -> subprocess.Popen[bytes]:
    """Start it. Raises OSError."""
    cpus = plan.cpus or launch.cpus
    if not cpus:
        return _spawned(launch, seat, household)
    return _pinned(cpus, launch, seat, household)


def _pinned(
    cpus: Collection[int], launch: Launch, seat: Seat, household: Household
) -> subprocess.Popen[bytes]:
    """The child inherits our affinity, so no thread of it is ever elsewhere."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cpus))
    try:
        return _spawned(launch, seat, household)
    finally:
        os.sched_setaffinity(0, own)


def _spawned(launch: Launch, seat: Seat, household: Household) -> subprocess.Popen[bytes]:
    return shell.spawn(
        launching.command(launch, seat),
        cwd=launch.directory,
        env=launching.environment(launch, seat, household),
        log=household.layout.replica_log(seat.name),
    )
