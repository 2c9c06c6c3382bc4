"""Which runtime commands bring HAProxy from the servers it has to those that are wanted; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.runtime_api import BACKEND, ServerRow


def commands(have: Mapping[str, ServerRow], want: Mapping[str, Server]) -> list[str]:
    """Commands in a safe order: whoever gains traffic first, whoever loses it after.

    Servers that are not wanted are left to `stale` and `deletions`.
    """
    gains: list[str] = []
    losses: list[str] = []
    for name, server in want.items():
        row = have.get(name)
        where = f"{BACKEND}/{name}"
        if row is None:
            gains += _added(server)
            continue
        if row.maint and not server.maint:
            gains.append(f"set server {where} state ready")
        if row.weight != server.weight:
            side = gains if server.weight > row.weight else losses
            side.append(f"set server {where} weight {server.weight}")
        if server.maint and not row.maint:
            losses.append(f"set server {where} state maint")
    return gains + losses


def stale(have: Mapping[str, ServerRow], want: Mapping[str, Server]) -> list[str]:
    """Servers that nobody wants, or that have another port than the one wanted."""
    return [name for name, row in have.items() if name not in want or row.port != want[name].port]


def deletions(names: Iterable[str]) -> list[str]:
    """Commands that take servers out; HAProxy refuses those that still have connections."""
    return [
        command
        for name in names
        for command in (
            f"set server {BACKEND}/{name} state maint",
            f"del map health.map {name}",
            f"del server {BACKEND}/{name}",
        )
    ]


def _added(server: Server) -> list[str]:
    where = f"{BACKEND}/{server.name}"
    added = [
        f"add server {where} {server.host}:{server.port} {server.options} weight {server.weight}",
        f"enable health {where}",
    ]
    return added if server.maint else [*added, f"enable server {where}"]
