"""The supervisor: remembers what is wanted and brings it about, step by step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from opsctl import __version__
from opsctl.clock import SystemClock
from opsctl.errors import OpsctlError, Superseded, TargetUnreachable
from opsctl.inbox import Inbox
from opsctl.model import DesiredState, Guard, Json, Observed, Stamp
from opsctl.targets.supervisor import guarding, persisted, ports, procfs, rebuild, runtime_api
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.balancer import Balancer, taken_by
from opsctl.targets.supervisor.events import EventLog
from opsctl.targets.supervisor.files import write_atomically
from opsctl.targets.supervisor.fleet import Fleet, plans
from opsctl.targets.supervisor.launch import Household
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.lease import Lease
from opsctl.targets.supervisor.persisted import Persisted
from opsctl.targets.supervisor.removal import Removals
from opsctl.targets.supervisor.replica import ReplicaPlan, Surroundings
from opsctl.targets.supervisor.rotation import rotate_all
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.traffic import FRONT, Counts, TrafficLedger
from opsctl.targets.supervisor.traffic_plan import next_percents, placed

IDLE_TICK_S = 1.0
GUARD_TICK_S = 0.25
"""Tick while the guard has something to do: it must act within a second of a stale lease."""

RETRY_TICK_S = 0.25
COUNT_S = 0.9
"""How often HAProxy's counters are read: just under a tick, or every other tick would miss."""

HOUSEKEEPING_S = 5.0


class Supervisor:
    """One service. The working directory must be `layout.run`."""

    def __init__(self, layout: Layout, env: Mapping[str, str]) -> None:
        self._layout = layout
        self._env = env
        self._events = EventLog(layout.events_file)
        self._memory = Persisted()
        self._wake = asyncio.Event()
        self._unsaved = False
        self._save_failed = False
        self._trouble = ""
        self._ledger = TrafficLedger()
        self._counted_at = 0.0
        self._housekept_at = 0.0
        self._leaving_for_good: asyncio.Task[None] | None = None
        self.exit_code: int | None = None
        """Set when the process is to end: 0 ends its keeper too."""
        self._balancer = Balancer(layout, env, self._events.tell, self._changed)
        self._fleet = Fleet(
            Surroundings(
                household=Household("", "", layout, env),
                tell=self._events.tell,
                changed=self._changed,
                port_range=lambda: self._settings.replica_ports,
                taken_ports=lambda: self._fleet.taken_ports() | {self._memory.front_port},
                crashed=self._replica_ended,
            )
        )
        self._removals = Removals(self._fleet, self._balancer, self._events.tell, self._changed)
        self._lease = Lease(layout.lease_file, procfs.boot_id())

    @property
    def _settings(self) -> RunSettings:
        return self._memory.settings or RunSettings("", "")

    # ------------------------------------------------------------------ start and loop

    async def load(self) -> None:
        """Take over what an earlier supervisor left behind."""
        loaded, problem = persisted.load(self._layout.state_file)
        boot = procfs.boot_id()
        if loaded is None and problem:
            self._events.tell("", problem)
            loaded = rebuild.from_what_runs(self._layout)
        self._memory = loaded or Persisted()
        same_boot = self._memory.boot in ("", boot)
        self._memory.boot = boot
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            self._ledger = TrafficLedger.from_dict(
                json.loads(self._layout.counters_file.read_text())
            )
        with self._trouble_told():
            await self._balancer.adopt(same_boot=same_boot)
        self._name_household()
        self._fleet.adopt(self._memory.replicas if same_boot else [])
        if not same_boot:
            self._memory.percents, self._memory.complete = {}, []

    async def run(self) -> int:
        """Work until told to end; the exit code."""
        watchdog = asyncio.create_task(self._fleet.watch_memory())
        while self.exit_code is None:
            await self._step()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._tick_s())
            self._wake.clear()
        watchdog.cancel()
        return self.exit_code

    def _tick_s(self) -> float:
        if self._trouble:
            return RETRY_TICK_S
        return GUARD_TICK_S if self._guard_is_needed() else IDLE_TICK_S

    async def _step(self) -> None:
        if self._leaving_for_good is not None:
            return
        with self._trouble_told():
            await self._count()
            self._retire()
            self._check_guard()
            await self._reconcile()
            await self._balancer.refresh_certificate()
        self._housekeep()
        self._save()

    def wake(self) -> None:
        """Look at everything now."""
        self._wake.set()

    def _changed(self) -> None:
        self._unsaved = True
        self._wake.set()

    @contextlib.contextmanager
    def _trouble_told(self) -> Any:
        """Whatever goes wrong is told once and tried again at the next tick."""
        try:
            yield
        except (OpsctlError, OSError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._events.tell("", self._trouble)
        else:
            self._trouble = ""

    # ------------------------------------------------------------------ towards the state

    def _effective(self) -> DesiredState:
        """What is really to run: the safe state when the guard acted, without retired releases."""
        state = self._memory.guard.safe if self._memory.guarded else self._memory.desired
        kept = (s for s in state.shares if s.weight or s.release not in self._memory.retired)
        return DesiredState(tuple(kept))

    async def _reconcile(self) -> None:
        memory = self._memory
        state = self._effective()
        wanted = plans(state)
        self._removals.cancel_wanted(wanted)
        self._fleet.start_missing(wanted)
        serving = any(share.role == "serving" for share in state.shares)
        if self._memory.settings and (serving or self._balancer.up):
            if self._balancer.must_reload(self._settings, memory.front_port):
                await self._count(now=True)
            await self._balancer.ensure_up(self._settings, memory.front_port)
        await self._move_moved()
        self._note_complete(state)
        members = self._fleet.balanced(wanted, self._balancer.servers)
        members = [m for m in members if m.server.name not in self._removals]
        percents = next_percents(state, memory.percents, members, memory.complete)
        self._balancer.note = {"stamp": memory.stamp.to_dict(), "percents": percents}
        if self._balancer.up:
            await self._balancer.put(placed(percents, members, self._balancer.servers))
            await self._tell_recovered()
            if percents != memory.percents:
                self._tell_shift(percents)
                memory.percents = percents
                self._unsaved = True
        self._remove_surplus(wanted)

    async def _tell_recovered(self) -> None:
        """HAProxy may still believe what its last check saw of a replica that is ready again."""
        for name, runner in self._fleet.runners.items():
            if runner.came_back:
                runner.came_back = False
                if runner.restarts:
                    await self._balancer.report_up(name)

    async def _move_moved(self) -> None:
        """A replica that came back on another port leaves the balancer, to join it anew."""
        for name, server in list(self._balancer.servers.items()):
            runner = self._fleet.runners.get(name)
            stray = runner is None and name not in self._removals
            if stray or (runner and runner.seat.port not in (0, server.port)):
                await self._balancer.remove(name, 0.0)

    def _note_complete(self, state: DesiredState) -> None:
        """Remember releases that have all their replicas ready; forget those that left."""
        releases = {share.release for share in state.shares} | set(self._memory.percents)
        complete = {release for release in self._memory.complete if release in releases}
        for share in state.shares:
            ready = [
                r
                for r in self._fleet.runners.values()
                if r.ready and r.plan.release == share.release and r.plan.role == "serving"
            ]
            if share.role == "serving" and len(ready) >= share.replicas > 0:
                complete.add(share.release)
        self._memory.complete = sorted(complete)

    def _tell_shift(self, percents: Mapping[str, int]) -> None:
        shares = ", ".join(f"{release} {percent} %" for release, percent in percents.items())
        for release in {*percents, *self._memory.percents}:
            self._events.tell(release, f"traffic: {shares or 'nothing serves'}")

    def _remove_surplus(self, wanted: Mapping[str, ReplicaPlan]) -> None:
        """Begin to remove what is not wanted and has no traffic any more."""
        staying = {plan.release for plan in wanted.values() if plan.role == "serving"}
        for name, runner in list(self._fleet.runners.items()):
            if name in wanted or name in self._removals:
                continue
            release, server = runner.plan.release, self._balancer.servers.get(name)
            waits = release in self._memory.percents and release not in staying
            if runner.plan.role == "serving" and (waits or (server and server.weight > 0)):
                continue  # its release carries traffic until another one can take it
            self._removals.begin(name, self._settings.drain_timeout_s)

    def _replica_ended(self, name: str) -> None:
        """Take a dead replica out at once, unless it is the only one: then requests wait for it."""
        others = [s for s in self._balancer.servers.values() if s.weight > 0 and s.name != name]
        if others:
            task = asyncio.create_task(self._balancer.report_down(name))
            task.add_done_callback(lambda _: None)

    def _retire(self) -> None:
        now = time.time()
        state = self._memory.guard.safe if self._memory.guarded else self._memory.desired
        for share in state.shares:
            due = share.retire_at is not None and share.retire_at <= now and share.weight == 0
            if due and share.release not in self._memory.retired:
                self._memory.retired.append(share.release)
                self._unsaved = True
                self._events.tell(share.release, f"{share.release} retired: its time as a warm"
                                  " release is over")  # fmt: skip

    # ------------------------------------------------------------------ guard

    def _guard_is_needed(self) -> bool:
        """Whether something other than the safe state is in force."""
        memory = self._memory
        return not memory.guarded and memory.guard.safe != memory.desired

    def _check_guard(self) -> None:
        if not self._guard_is_needed():
            return
        guard = self._memory.guard
        reason = guarding.lease_reason(guard, self._lease.age_s)
        if reason:
            self._put_safe(reason)
        elif guard.unattended and guard.on_trial:
            trial = self._trial(guard.on_trial)
            broken = guarding.trial_reason(guard.on_trial, guard.limits, trial)
            if broken:
                self._put_safe(broken)
                self._withdraw(broken)

    def _trial(self, release: str) -> guarding.Trial:
        """The release on trial since it was left alone."""
        start = self._memory.trial
        before = Counts(start.get("requests", 0), start.get("errors", 0))
        return guarding.Trial(
            traffic=self._ledger.of(release).since(before),
            restarts=self._fleet.restarts(release) - start.get("restarts", 0),
            replicas=[r for r in self._fleet.observed() if r.release == release],
            failed_probes=self._fleet.failed_probes(release),
        )

    def _put_safe(self, reason: str) -> None:
        memory = self._memory
        memory.guarded, memory.guard_reason = True, reason
        self._unsaved = True
        self._events.tell("", f"guard puts the safe state in force: {reason}")

    def _withdraw(self, reason: str) -> None:
        """Ask the next holder to take the candidate back; a stale lease alone asks for nothing."""
        with contextlib.suppress(OSError):
            Inbox(self._layout.inbox).put("guard", by="guard", reason=reason, clock=SystemClock())

    # ------------------------------------------------------------------ memory and counters

    def _save(self) -> None:
        if not self._unsaved:
            return
        self._memory.replicas = [r.record() for r in self._fleet.runners.values()]
        try:
            persisted.save(self._layout.state_file, self._memory)
        except OSError as error:
            if not self._save_failed:
                self._events.tell("", f"cannot write the state: {error.strerror}; acting anyway")
            self._save_failed = True
            return
        if self._save_failed:
            self._events.tell("", "the state can be written again")
        self._unsaved = self._save_failed = False

    async def _count(self, *, now: bool = False) -> None:
        """Read HAProxy's counters, at most each second unless they are wanted `now`."""
        identity = self._balancer.identity
        due = time.monotonic() - self._counted_at >= COUNT_S
        if not self._balancer.up or identity is None or not (due or now):
            return
        self._counted_at = time.monotonic()
        rows = await runtime_api.statistics()
        if self._ledger.absorb(rows, f"{identity.pid}:{identity.start_ticks}"):
            with contextlib.suppress(OSError):
                write_atomically(self._layout.counters_file, json.dumps(self._ledger.to_dict()))

    def _housekeep(self) -> None:
        if time.monotonic() - self._housekept_at < HOUSEKEEPING_S:
            return
        self._housekept_at = time.monotonic()
        settings = self._settings
        with contextlib.suppress(OSError):
            rotate_all(self._layout.logs, settings.log_max_mb, settings.log_files)

    # ------------------------------------------------------------------ calls

    def hello(self) -> Json:
        """Who answers."""
        return {
            "version": __version__,
            "format": persisted.FORMAT,
            "pid": os.getpid(),
            "front_port": self._memory.front_port,
        }

    async def apply(self, request: Mapping[str, Any]) -> Json:
        """Make a state the desired one; it is durable when this returns. See Target.apply."""
        with contextlib.suppress(OpsctlError):
            await self._count(now=True)  # what came before must not count against a trial
        state = DesiredState.from_dict(request["state"])
        stamp = Stamp.from_dict(request["stamp"])
        guard = Guard.from_dict(request["guard"])
        settings = RunSettings.from_dict(request["settings"])
        memory = self._memory
        self._fence(stamp.epoch)
        if (stamp.epoch, stamp.sequence) < (memory.stamp.epoch, memory.stamp.sequence):
            raise Superseded(
                f"state {stamp.epoch}.{stamp.sequence} is older than the one in force",
                why=f"{memory.stamp.epoch}.{memory.stamp.sequence} was applied",
            )
        for share in state.shares:
            launching.load(self._layout, share.release)
        memory.front_port = self._front_port(settings)
        memory.settings = settings
        memory.epoch, memory.stamp = stamp.epoch, stamp
        memory.desired, memory.guard = state, guard
        memory.guarded, memory.guard_reason = False, ""
        named = {s.release for s in (*state.shares, *guard.safe.shares) if s.retire_at is not None}
        memory.retired = [release for release in memory.retired if release in named]
        self._note_trial(guard)
        self._lease.renew()
        self._name_household()
        with contextlib.suppress(OSError):
            write_atomically(self._layout.settings_file, json.dumps(settings.to_dict()))
        self._unsaved = True
        self._save()
        self._wake.set()
        return {}

    def _note_trial(self, guard: Guard) -> None:
        self._memory.trial = {}
        if guard.unattended and guard.on_trial:
            counts = self._ledger.of(guard.on_trial)
            self._memory.trial = {
                "requests": counts.requests,
                "errors": counts.errors,
                "restarts": self._fleet.restarts(guard.on_trial),
            }

    def _front_port(self, settings: RunSettings) -> int:
        """The front door's port, proved to be ours or free. Raises TargetUnreachable."""
        current = self._balancer.port if self._balancer.up else 0
        remembered = current or self._memory.front_port
        if settings.port in (0, current) and current:
            return current
        port = settings.port or remembered
        if not port or (not settings.port and not ports.is_free(port, settings.host)):
            port = ports.choose_front(settings.host)
        if not ports.is_free(port, settings.host):
            raise TargetUnreachable(
                f"cannot open the front door on port {port}",
                why=taken_by(port),
                next_step="Stop it or set local.port in opsctl.yaml, then run: opsctl resume",
            )
        return port

    def renew(self, epoch: int) -> Json:
        """The holder lives."""
        self._fence(epoch)
        self._lease.renew()
        return {}

    def _fence(self, epoch: int) -> None:
        if epoch < self._memory.epoch:
            raise Superseded(
                f"epoch {epoch} is over",
                why=f"epoch {self._memory.epoch} took over",
                next_step="See: opsctl status",
            )

    async def observe(self) -> Json:
        """What runs now, as Observed.to_dict."""
        with contextlib.suppress(OpsctlError):
            await self._count(now=True)
        memory, settings = self._memory, self._settings
        front = self._ledger.of(FRONT)
        scheme = "https" if settings.tls else "http"
        host = ports.reachable(settings.host)
        host = f"[{host}]" if ":" in host else host
        return Observed(
            stamp=memory.stamp,
            desired=self._effective(),
            converged=self._converged(),
            replicas=self._fleet.observed(),
            traffic=self._ledger.traffic(),
            balancer_up=self._balancer.up,
            front_url=f"{scheme}://{host}:{memory.front_port}" if memory.front_port else "",
            front_requests=front.requests,
            front_errors=front.errors,
            guarded=memory.guarded,
            guard_reason=memory.guard_reason,
            weights=memory.percents if self._balancer.up else {},
        ).to_dict()

    def _converged(self) -> bool:
        memory = self._memory
        state = self._effective()
        wanted = plans(state)
        runners = self._fleet.runners
        percents = {share.release: share.weight for share in state.shares if share.weight > 0}
        serving = [name for name, plan in wanted.items() if plan.role == "serving"]
        return (
            not memory.guarded
            and not self._trouble
            and set(wanted) == set(runners)
            and all(runner.ready and not runner.came_back for runner in runners.values())
            and percents == memory.percents
            and (self._balancer.up or not serving)
            and set(serving) == set(self._balancer.servers)
            and all(s.weight > 0 or s.release not in percents
                    for s in self._balancer.servers.values())
        )  # fmt: skip

    def down(self, epoch: int) -> Json:
        """Begin to stop everything; the process ends when that is done."""
        self._fence(epoch)
        if self._leaving_for_good is None:
            self._events.tell("", "down: everything is stopped")
            self._leaving_for_good = asyncio.create_task(self._stop_everything())
        return {"pid": os.getpid()}

    async def _stop_everything(self) -> None:
        memory = self._memory
        memory.desired, memory.guard = DesiredState(), Guard(DesiredState())
        memory.guarded = False
        memory.percents = {}
        self._unsaved = True
        self._save()
        await self._removals.all_at_once(self._settings.drain_timeout_s)
        await self._balancer.stop()
        self._save()
        self.exit_code = 0
        self._wake.set()

    def replace(self) -> Json:
        """End, so that a newer supervisor can adopt everything."""
        self._events.tell("", f"supervisor {__version__} makes room for a newer one")
        self._unsaved = True
        self._save()
        self.exit_code = 0
        self._wake.set()
        return {"pid": os.getpid()}

    def _name_household(self) -> None:
        self._fleet.rename(self._settings.service, self._settings.environment)
