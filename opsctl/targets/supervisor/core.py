"""The supervisor: what it is asked (`apply`, `observe`, …) and its loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from opsctl import __version__
from opsctl.errors import OpsctlError, Superseded
from opsctl.files import write_atomically
from opsctl.model import DesiredState, Guard, Json, Observed, Stamp
from opsctl.targets.supervisor import admission, persisted, procfs, start
from opsctl.targets.supervisor.balancer import Balancer
from opsctl.targets.supervisor.counting import TrafficCounter
from opsctl.targets.supervisor.events import EventLog
from opsctl.targets.supervisor.fleet import Fleet, plans
from opsctl.targets.supervisor.guard_watch import GuardWatch
from opsctl.targets.supervisor.haproxy_process import Haproxy, HaproxyProcess
from opsctl.targets.supervisor.launch import Household
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.log_watch import LogWatch
from opsctl.targets.supervisor.removal import Removals
from opsctl.targets.supervisor.replica_plan import Surroundings
from opsctl.targets.supervisor.rotation import LogLimit
from opsctl.targets.supervisor.run_settings import RunSettings, reachable
from opsctl.targets.supervisor.steering import Steering
from opsctl.targets.supervisor.store import Store
from opsctl.targets.supervisor.tasks import Tasks
from opsctl.targets.supervisor.traffic import FRONT

IDLE_TICK_S = 1.0
GUARD_TICK_S = 0.25
"""Tick while the guard has something to do: it must act within a second of a stale lease."""

RETRY_TICK_S = 0.25
HOUSEKEEPING_S = 5.0
INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits(3); the keeper starts the supervisor again."""


class Supervisor:
    """One service. The working directory must be `layout.run`."""

    def __init__(self, layout: Layout, env: Mapping[str, str]) -> None:
        self.exit_code: int | None = None
        """Set when the process is to end: 0 ends its keeper too."""
        self._layout = layout
        self._events = EventLog(layout.events_file)
        self._wake = asyncio.Event()
        self._trouble = ""
        self._housekept_at = 0.0
        self._keeper = os.getppid()
        self._going_down: asyncio.Task[None] | None = None
        self._tasks = Tasks(self._break_down)
        self._store = Store(layout, self._events.tell)
        self._balancer = Balancer(layout, self._made_haproxy(env), self._events.tell)
        self._counter = TrafficCounter(self._balancer, layout.counters_file)
        household = Household(self._settings.service, self._settings.environment, layout, env)
        around = Surroundings(
            household=household,
            tell=self._events.tell,
            tasks=self._tasks,
            changed=self._changed,
            port_range=lambda: self._settings.replica_ports,
            taken_ports=lambda: self._fleet.taken_ports() | {self._store.memory.front_port},
            crashed=self._balancer.replica_ended,
        )
        self._fleet = self._made_fleet(around)
        self._removals = Removals(self._fleet, self._balancer, around)
        self._steering = Steering(self._store, self._fleet, self._balancer, self._removals)
        self._guard = GuardWatch(self._store, self._fleet, layout, self._events.tell)
        self._logs = LogWatch(
            layout,
            limit=lambda: LogLimit(self._settings.log_max_mb, self._settings.log_files),
            replicas=lambda: self._fleet.runners,
            flooded=self._end_flooding,
            tell=self._events.tell,
        )

    def _made_fleet(self, around: Surroundings) -> Fleet:
        return Fleet(around)

    def _made_haproxy(self, env: Mapping[str, str]) -> Haproxy:
        return HaproxyProcess(self._layout, env, self._events.tell, self._changed)

    def _end_flooding(self, replica: str, reason: str) -> None:
        """End a replica for what it writes; it is then restarted."""
        if replica in self._fleet.runners:
            self._fleet.runners[replica].kill(reason)

    def _holds_port(self, port: int) -> bool:
        """Whether it is this service itself that holds a port of the machine."""
        return admission.held_by_process_of(self._layout, port)

    @property
    def _settings(self) -> RunSettings:
        return self._store.memory.settings or RunSettings("", "")

    # ------------------------------------------------------------------ the loop

    async def adopt(self) -> None:
        """Take over the processes that an earlier supervisor left behind."""
        with self._trouble_told():
            await self._balancer.adopt(same_boot=self._store.same_boot)
        await self._fleet.adopt(self._store.memory.replicas, plans(self._steering.effective()))

    async def run(self) -> int:
        """Work until told to end; the exit code."""
        self._tasks.begin(self._fleet.watch_memory(), "memory watchdog")
        self._tasks.begin(self._logs.run(), "log watch")
        while self.exit_code is None:
            await self._step()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._tick_s())
            self._wake.clear()
        return self.exit_code

    def wake(self) -> None:
        """Look at everything now."""
        self._wake.set()

    def _tick_s(self) -> float:
        if self._trouble:
            return RETRY_TICK_S
        return GUARD_TICK_S if self._guard.needed else IDLE_TICK_S

    async def _step(self) -> None:
        if self._going_down is not None:
            return
        await self._counter.count(now=self._reload_is_due())
        self._guard.check(self._counter.ledger)
        with self._trouble_told():
            await self._steering.step(self._events.tell)
            await self._balancer.refresh_certificate()
        self._housekeep()
        self._save()

    def _reload_is_due(self) -> bool:
        settings, port = self._store.memory.settings, self._store.memory.front_port
        return settings is not None and self._balancer.must_reload(settings, port)

    def _changed(self) -> None:
        self._store.touch()
        self._wake.set()

    def _save(self) -> None:
        self._store.save([runner.record() for runner in self._fleet.runners.values()])

    @contextlib.contextmanager
    def _trouble_told(self) -> Iterator[None]:
        """Whatever goes wrong is told once and tried again at the next tick."""
        try:
            yield
        except (OpsctlError, OSError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._events.tell("", self._trouble)
        else:
            self._trouble = ""

    def _housekeep(self) -> None:
        if time.monotonic() - self._housekept_at < HOUSEKEEPING_S:
            return
        self._housekept_at = time.monotonic()
        if os.getppid() != self._keeper and self.exit_code is None:
            self._events.tell("", "the supervisor's keeper is gone; another one starts")
            self._store.touch()
            with contextlib.suppress(OSError):
                start.spawn_keeper(self._layout)
                self._end()

    # ------------------------------------------------------------------ what it is asked

    def hello(self) -> Json:
        """Who answers."""
        return {
            "version": __version__,
            "format": persisted.FORMAT,
            "pid": os.getpid(),
            "front_port": self._store.memory.front_port,
        }

    async def apply(self, request: Mapping[str, Any]) -> Json:
        """Make a state the desired one; it is durable when this returns. See Target.apply."""
        # `down` takes it away, from under an agent that stays and is given a new order.
        with contextlib.suppress(OSError):
            self._layout.logs.mkdir(exist_ok=True)
        # What users met before must not count against a trial that begins now.
        await self._counter.count(now=True)
        state = DesiredState.from_dict(request["state"])
        stamp = Stamp.from_dict(request["stamp"])
        guard = Guard.from_dict(request["guard"])
        settings = RunSettings.from_dict(request["settings"])
        memory = self._store.memory
        self._fence(stamp.epoch)
        admission.refuse_older(stamp, memory.stamp)
        running = {runner.plan.release for runner in self._fleet.runners.values()}
        admission.refuse_unready(state, settings, self._layout, running)
        current = self._balancer.port if self._balancer.up else 0
        port = admission.front_port(settings, current, memory.front_port, self._holds_port)
        memory.front_opened = memory.front_opened and port == memory.front_port
        memory.front_port = port
        self._store.order(state, stamp, guard, settings)
        self._guard.begin(guard, self._counter.ledger)
        self._fleet.rename(settings.service, settings.environment)
        with contextlib.suppress(OSError):
            write_atomically(self._layout.settings_file, json.dumps(settings.to_dict()))
        self._save()
        self._wake.set()
        return {}

    def renew(self, epoch: int) -> Json:
        """The holder lives."""
        self._fence(epoch)
        self._guard.lease.renew()
        return {}

    async def observe(self) -> Json:
        """What runs now, as Observed.to_dict."""
        await self._counter.count(now=True)
        memory, settings = self._store.memory, self._settings
        front = self._counter.ledger.of(FRONT)
        host = reachable(settings.host)
        authority = f"[{host}]" if ":" in host else host
        url = f"{'https' if settings.tls else 'http'}://{authority}:{memory.front_port}"
        return Observed(
            stamp=memory.stamp,
            desired=self._steering.effective(),
            converged=not memory.guarded and not self._trouble and self._steering.converged(),
            replicas=self._fleet.observed(),
            traffic=self._counter.ledger.traffic(),
            balancer_up=self._balancer.up,
            front_url=url if memory.front_port else "",
            front_requests=front.requests,
            front_errors=front.errors,
            guarded=memory.guarded,
            guard_reason=memory.guard_reason,
            weights=memory.percents if self._balancer.up else {},
            trouble=self._trouble or self._balancer.certificate.problem,
        ).to_dict()

    def down(self, epoch: int) -> Json:
        """Begin to stop everything; the process ends when that is done."""
        self._fence(epoch)
        if self._going_down is None:
            self._events.tell("", "down: everything is stopped")
            self._going_down = self._tasks.begin(self._stop_everything(), "down")
        return {"pid": os.getpid()}

    def replace(self) -> Json:
        """End, so that a newer supervisor can adopt everything."""
        self._events.tell("", f"supervisor {__version__} makes room for a newer one")
        self._store.touch()
        self._save()
        self._end()
        return {"pid": os.getpid()}

    def _fence(self, epoch: int) -> None:
        """Refuse an epoch that is over, and remember a new one."""
        memory = self._store.memory
        if epoch < memory.epoch:
            raise Superseded(
                f"epoch {epoch} is over",
                why=f"epoch {memory.epoch} took over",
                next_step="See: opsctl status",
            )
        if epoch > memory.epoch:
            memory.epoch = epoch
            self._store.touch()
            self._save()

    async def _stop_everything(self) -> None:
        self._store.forget()
        self._save()
        await self._removals.all_at_once(self._settings.drain_timeout_s)
        await self._balancer.stop()
        self._end_of_service()

    def _end_of_service(self) -> None:
        # While we hold the lock: whoever waits for it finds that there is nothing to do.
        shutil.rmtree(self._layout.run, ignore_errors=True)
        self._end()

    def _end(self) -> None:
        self.exit_code = 0
        self._wake.set()

    def _break_down(self, error: BaseException) -> None:
        """End for an unexpected error: the next supervisor adopts everything and goes on."""
        traceback.print_exception(error, file=sys.stderr)
        self._events.tell("", f"supervisor ends for an internal error: {error!r}")
        self.exit_code = INTERNAL_ERROR
        self._wake.set()


def started(layout: Layout) -> Supervisor:
    """A supervisor for the service, with its mark left out of its own environment."""
    return Supervisor(layout, {k: v for k, v in os.environ.items() if k != procfs.SERVICE_MARK})
