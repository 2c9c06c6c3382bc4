"""Reading HAProxy's counters into the ledger, and noticing when it does not answer."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from opsctl.errors import TargetUnreachable
from opsctl.files import write_atomically
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.balancer import Balancer
from opsctl.targets.supervisor.runtime_api import Statistics
from opsctl.targets.supervisor.traffic import TrafficLedger

COUNT_S = 0.9
"""How often counters are read: just under a tick, or every other tick would miss."""

SILENCES_MAX = 3
"""Unanswered readings in a row (2 s each) after which HAProxy is taken for hung and killed."""


class TrafficCounter:
    """The ledger of one service, kept in `path` across supervisors."""

    def __init__(self, balancer: Balancer, path: Path) -> None:
        self.ledger = TrafficLedger()
        self._balancer = balancer
        self._path = path
        self._read_at = float("-inf")
        self._silences = 0
        balancer.counted = self._absorb
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            self.ledger = TrafficLedger.from_dict(json.loads(path.read_text()))

    async def count(self, *, now: bool = False) -> None:
        """Read the counters, at most each second unless they are wanted `now`. Never raises."""
        process = self._balancer.process
        due = time.monotonic() - self._read_at >= COUNT_S
        if not process.up or not (due or now):
            return
        self._read_at = time.monotonic()
        try:
            seen = await runtime_api.statistics()
        except TargetUnreachable:
            self._note_silence()
            return
        self._silences = 0
        self._absorb(seen)

    def _absorb(self, seen: Statistics) -> None:
        if self.ledger.absorb(seen):
            with contextlib.suppress(OSError):
                write_atomically(self._path, json.dumps(self.ledger.to_dict()))

    def _note_silence(self) -> None:
        self._silences += 1
        if self._silences >= SILENCES_MAX:
            self._silences = 0
            self._balancer.process.kill("it does not answer any more")
