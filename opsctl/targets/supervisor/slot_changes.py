"""Which runtime commands bring HAProxy's slots from what they are to what is wanted; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from opsctl.targets.supervisor.haproxy_config import FREE_PORT, HOST, NOBODY, Server
from opsctl.targets.supervisor.layout import SLOT_MAP_NAME
from opsctl.targets.supervisor.runtime_api import BACKEND, SlotRow


def commands(have: Mapping[str, SlotRow], want: Mapping[str, Server]) -> list[str]:
    """Commands in a safe order: whoever gains traffic first, whoever loses it after.

    `want` is by slot; a slot that is not in it gets no traffic.
    """
    gains: list[str] = []
    losses: list[str] = []
    for slot, row in have.items():
        server = want.get(slot)
        if server is None:
            losses += [] if row.resting else rest([slot])
            continue
        where = f"{BACKEND}/{slot}"
        if not _is_bound(row, server):
            gains += bind(slot, server)
            continue
        if row.health_path != server.health_path:
            gains.append(_name(slot, server.name, server.health_path))
        if row.maint and not server.maint:
            gains.append(f"set server {where} state ready")
        if row.weight != server.weight:
            side = gains if server.weight > row.weight else losses
            side.append(f"set server {where} weight {server.weight}")
        if server.maint and not row.maint:
            losses.append(f"set server {where} state maint")
    return gains + losses


def unbound(have: Mapping[str, SlotRow], want: Mapping[str, Server]) -> list[str]:
    """Slots that must first be at rest: they are to get another replica or address."""
    return [slot for slot, server in want.items() if not _is_bound(have[slot], server)]


def rest(slots: Iterable[str]) -> list[str]:
    """Commands that take all traffic from slots; maintenance moves sticky clients too."""
    return [
        command
        for slot in slots
        for command in (
            f"set server {BACKEND}/{slot} weight 0",
            f"set server {BACKEND}/{slot} state maint",
        )
    ]


def bind(slot: str, server: Server) -> list[str]:
    """Commands that give a resting slot to a replica.

    The name goes first: nothing that the new replica answers may carry the old one's. A changed
    address closes what idle connections are left. Out of maintenance a slot begins as healthy,
    whatever the last check of its last replica saw, with one failed check to be down.
    """
    where = f"{BACKEND}/{slot}"
    return [
        *rest([slot]),
        _name(slot, server.name, server.health_path),
        f"set server {where} addr {server.host} port {server.port}",
        f"set server {where} check-port {server.health_port}",
        *([] if server.maint else [f"set server {where} state ready"]),
        f"set server {where} weight {server.weight}",
    ]


def free(slot: str) -> list[str]:
    """Commands that make a resting slot nobody's, with an address where nobody answers."""
    where = f"{BACKEND}/{slot}"
    return [
        f"set server {where} addr {HOST} port {FREE_PORT}",
        f"set server {where} check-port {FREE_PORT}",
        _name(slot, NOBODY, ""),
    ]


def _is_bound(row: SlotRow, server: Server) -> bool:
    has = (row.replica, row.host, row.port, row.health_port)
    return has == (server.name, server.host, server.port, server.health_port)


def _name(slot: str, replica: str, health_path: str) -> str:
    value = re.sub(r"([\\; ])", r"\\\1", f"{replica}:{health_path}")
    return f"set map {SLOT_MAP_NAME} {slot} {value}"
