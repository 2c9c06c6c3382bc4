"""The guard at work: it watches the lease and the release on trial, and acts by itself."""

from __future__ import annotations

import contextlib

from opsctl.clock import SystemClock
from opsctl.inbox import Inbox
from opsctl.model import Guard
from opsctl.storage_folder import FolderStorage
from opsctl.targets.supervisor import guarding
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.fleet import Fleet
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.lease import Lease
from opsctl.targets.supervisor.store import Store
from opsctl.targets.supervisor.traffic import Counts, TrafficLedger


class GuardWatch:
    """See model.Guard for what it does."""

    def __init__(self, store: Store, fleet: Fleet, layout: Layout, tell: Tell) -> None:
        self.lease = Lease(layout.lease_file, store.memory.boot)
        self._store = store
        self._fleet = fleet
        self._inbox = Inbox(FolderStorage(layout.service_dir))
        self._tell = tell

    @property
    def needed(self) -> bool:
        """Whether something other than the safe state is in force."""
        memory = self._store.memory
        return not memory.guarded and memory.guard.safe != memory.desired

    def check(self, ledger: TrafficLedger) -> None:
        """Put the safe state in force when its time has come."""
        if not self.needed:
            return
        guard = self._store.memory.guard
        reason = guarding.lease_reason(guard, self.lease.age_s)
        if reason:
            self._put_safe(reason)
        elif guard.unattended and guard.on_trial:
            trial = self._trial(guard.on_trial, ledger)
            broken = guarding.trial_reason(guard.on_trial, guard.limits, trial)
            if broken:
                self._put_safe(broken)
                self._withdraw(broken)

    def begin(self, guard: Guard, ledger: TrafficLedger) -> None:
        """A holder ordered a state: its lease is fresh, and a trial counts from here."""
        self.lease.renew()
        self._store.memory.trial = {}
        if guard.unattended and guard.on_trial:
            counts = ledger.of(guard.on_trial)
            self._store.memory.trial = {
                "requests": counts.requests,
                "errors": counts.errors,
                "restarts": self._fleet.restarts(guard.on_trial),
            }

    def _trial(self, release: str, ledger: TrafficLedger) -> guarding.Trial:
        """The release on trial since it was left alone."""
        start = self._store.memory.trial
        before = Counts(start.get("requests", 0), start.get("errors", 0))
        return guarding.Trial(
            traffic=ledger.of(release).since(before),
            restarts=self._fleet.restarts(release) - start.get("restarts", 0),
            replicas=[r for r in self._fleet.observed() if r.release == release],
            failed_probes=self._fleet.failed_probes(release),
        )

    def _put_safe(self, reason: str) -> None:
        memory = self._store.memory
        memory.guarded, memory.guard_reason = True, reason
        self._store.touch()
        self._tell("", f"guard puts the safe state in force: {reason}")

    def _withdraw(self, reason: str) -> None:
        """Ask the next holder to take the candidate back; a stale lease alone asks for nothing."""
        with contextlib.suppress(OSError):
            self._inbox.put("guard", by="guard", reason=reason, clock=SystemClock())
