"""What a command in a hurry changes before Helm does, and when Helm writes it down."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState
from opsctl.targets.kubernetes import desired, switch, values
from opsctl.targets.kubernetes.api import Conflict
from opsctl.targets.kubernetes.desired import Order
from opsctl.targets.kubernetes.hasten import hasten
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.names import SWITCH, TAKEN
from opsctl.targets.kubernetes.switch import Hand

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

RECORD_AFTER_S = 10.0
"""So long may a state that another follows at once stand in no revision of Helm."""


class Ahead:
    """The changes of one process."""

    def __init__(self, target: KubernetesTarget) -> None:
        self._target = target
        self._since = 0.0

    @property
    def _hand(self) -> Hand:
        target = self._target
        base_of = partial(values.base_of, target)
        return Hand(target.api, target.names, target.mode, base_of, SWITCH)

    def switch(self, order: Order, live: Live, wanted: DesiredState) -> bool:
        """Move the traffic at once where that is urgent and what gets it runs already; whether it
        was moved. Urgent is the way back from a release, and the end of a command."""
        urgent = order.guard.interim or order.guard.unattended
        if not urgent or live.front is None or not desired.is_at_hand(live.in_force, wanted):
            return False
        there = live.in_force.shifted(desired.weights_of(wanted))
        try:
            sent = switch.send(self._hand, live, there)
        except Conflict:
            self._target.view.refresh()
            return False
        self._since = time.monotonic()
        for kind, changed in sent.items():
            self._target.view.mirrors[kind].put(changed)
        return True

    def is_enough(self, order: Order, live: Live, wanted: DesiredState) -> bool:
        """Whether Helm may wait for the next state: all of this one is in force without it."""
        return (
            order.guard.interim
            and live.mark == TAKEN
            and live.in_force == wanted
            and time.monotonic() - self._since < RECORD_AFTER_S
        )

    def end(self, live: Live, wanted: DesiredState) -> None:
        """Tell releases to end that have no traffic and no place in `wanted`: connections that
        users keep alive last as long as their pods."""
        for share in desired.leaving(live.in_force, wanted):
            with contextlib.suppress(TargetUnreachable):  # Helm does it as well
                switch.end(self._hand, share.release, share.role)
            if self._since and self._hand.mode == "selector":
                hasten(self._target, share.release)
