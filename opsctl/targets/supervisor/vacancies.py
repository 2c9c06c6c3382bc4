"""Slots of replicas that have ended: free as soon as HAProxy has nothing left of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Container

from opsctl.targets.supervisor import runtime_api, slot_changes
from opsctl.targets.supervisor.runtime_api import BACKEND, Statistics
from opsctl.targets.supervisor.slots import Slots

CUT_AFTER_S = 1.0
"""How long HAProxy may take to notice by itself that a dead replica's connections ended."""


class Vacancies:
    """The ended replicas whose slots are still to be freed."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._since: dict[str, float] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._since

    def add(self, name: str) -> None:
        """Note that a replica's process has ended."""
        self._since.setdefault(name, time.monotonic())

    async def free(
        self, counted: Callable[[Statistics], None], *, up: bool, kept: Container[str]
    ) -> None:
        """Free the slots that can be freed now. Raises TargetUnreachable.

        Those of `kept` replicas stay; `counted` gets a slot's last counters. While HAProxy is
        not up there is nothing to ask it.
        """
        for name, since in list(self._since.items()):
            slot = self._slots.held.get(name)
            if slot is not None and name not in kept:
                cut = time.monotonic() - since > CUT_AFTER_S
                if up and not await _freed(slot, counted, cut=cut):
                    continue
                self._slots.give_back(name)
            del self._since[name]


async def _freed(slot: str, counted: Callable[[Statistics], None], *, cut: bool) -> bool:
    """Free a slot unless requests are left; with `cut` those are sent again elsewhere, or fail."""
    await runtime_api.command(slot_changes.rest([slot]))
    seen = await runtime_api.statistics()
    counted(seen)
    if slot in seen.busy:
        if cut:
            await runtime_api.command([f"shutdown sessions server {BACKEND}/{slot}"])
        return False
    await runtime_api.command(slot_changes.free(slot))
    return True
