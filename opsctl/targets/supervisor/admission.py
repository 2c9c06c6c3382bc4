"""Whether an ordered state can be taken on, told before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Container

from opsctl.errors import Superseded, TargetUnreachable
from opsctl.model import DesiredState, Stamp
from opsctl.ports import port_holder
from opsctl.targets.supervisor import haproxy_binary, ports, procfs, tls
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.run_settings import RunSettings


def refuse_older(stamp: Stamp, applied: Stamp) -> None:
    """Raises Superseded for a state from before the one that was applied last."""
    if (stamp.epoch, stamp.sequence) < (applied.epoch, applied.sequence):
        raise Superseded(
            f"state {stamp.epoch}.{stamp.sequence} is older than the one in force",
            why=f"{applied.epoch}.{applied.sequence} was applied",
            next_step="See: opsctl status",
        )


def refuse_unready(
    state: DesiredState, settings: RunSettings, layout: Layout, running: Container[str]
) -> None:
    """Raises TargetUnreachable or ConfigError when a file that the state needs is missing.

    What is `running` needs none: a release whose files are lost can still be deployed over.
    """
    for share in state.shares:
        if share.release not in running:
            launching.load(layout, share.release)
    if not any(share.role == "serving" for share in state.shares):
        return
    if haproxy_binary.find(settings.haproxy) is None:
        raise TargetUnreachable(
            f"cannot find {settings.haproxy}",
            next_step="Install HAProxy 2.6 or newer (Debian: apt-get install haproxy),"
            " or set local.haproxy.",
        )
    if settings.tls:
        tls.best(settings, layout.certificate)


def front_port(
    settings: RunSettings, current: int, remembered: int, is_ours: Callable[[int], bool]
) -> int:
    """The front door's port: `current` when it is held already, else one that is free.

    A HAProxy of this service that is just starting holds its port before it counts as up: that
    is as good as free. Raises TargetUnreachable, which names who holds the port.
    """
    if current and settings.port in (0, current):
        return current
    port = settings.port or remembered
    if port and (ports.is_free(port, settings.host) or is_ours(port)):
        return port
    if not settings.port:
        return ports.choose_front(settings.host, settings.section)
    raise TargetUnreachable(
        f"cannot open the front door on port {port}",
        why=ports.taken_by(port),
        next_step=f"Stop it or set {settings.section}.port in opsctl.yaml, then run: opsctl resume",
    )


def held_by_process_of(layout: Layout, port: int) -> bool:
    """Whether a process of the service holds a port of this machine."""
    holder = port_holder(port)
    return holder is not None and holder.pid in procfs.marked(layout.service_dir)
