"""One replica: started, watched, probed, restarted when it dies, stopped."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.model import Phase
from opsctl.ports import port_holder
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor import ports, probe, procfs, replica_start
from opsctl.targets.supervisor.backoff import CrashHistory
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.launch import Launch, Seat
from opsctl.targets.supervisor.log_tail import last_lines
from opsctl.targets.supervisor.memory import MemoryLimit
from opsctl.targets.supervisor.probe import ProbeResult
from opsctl.targets.supervisor.procfs import Identity
from opsctl.targets.supervisor.remains import Ended, Remains
from opsctl.targets.supervisor.replica_plan import ReplicaPlan, Surroundings
from opsctl.targets.supervisor.watched import Watched, WatchedProcess, exit_text

START_PROBE_S = 0.05
"""Time between probes until the first success: a service that starts fast serves fast."""

STREAK_PROBE_S = 0.5
"""Longest time between probes while a streak builds up: with 2 s, a cold rollback took 4 s more."""

LIVE_FAILURES_MAX = 3
"""Failed liveness probes in a row after which a replica is restarted."""

LOST_AFTER = 2
"""Failed readiness probes in a row that are no accident."""

DYING_S = 0.2
"""How long a process may take to end after its connections."""

DYING_LOOKS = 10
"""So often that, while the kernel takes it apart: it first frees its memory."""

PORT_TRIES_MAX = 5
KILL_WAIT_S = 5.0


class ReplicaRunner:
    """Keeps one replica running until `stop`."""

    def __init__(self, plan: ReplicaPlan, launch: Launch, around: Surroundings) -> None:
        self.plan = plan
        self.launch = launch
        self.seat = Seat(plan.name, 0, 0)
        self.phase: Phase = "starting"
        self.reason = "not started yet"
        self.restarts = 0
        self.exit_code: int | None = None
        self.ready_streak = 0
        self.failed_probes = 0
        """Failed readiness probes in a row since it was ready."""
        self.came_back = False
        """Ready again, and the balancer has not been told yet."""
        self.lost = False
        """Not ready any more, and the balancer has not been told yet."""
        self.proved = False
        """Whether it has ever been ready since it was made."""
        self.process: Watched | None = None
        self.memory = MemoryLimit(plan.name, launch.memory_mb, around.household.layout.service_dir)
        self._around = around
        self._remains = Remains(plan.name, around.household.layout.service_dir)
        self._crashes = CrashHistory()
        self._ready_since: float | None = None
        self._started_at = 0.0
        self._log = around.household.layout.replica_log(plan.name)
        self._log_start = 0
        self._port_tries = 0
        self._live_failures = 0
        self._owned = False
        self._kill_reason = ""
        self._ended = ""
        """Why it ended the last time, until it is ready again."""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start it, and keep it running."""
        self._task = self._around.tasks.begin(self._keep_running(), self.plan.name)

    def adopt(self, record: dict[str, Any]) -> bool:
        """Take over a process of an earlier supervisor; False when it has gone."""
        self.restarts = record["restarts"]
        self.proved = record["proved"]
        self.seat = Seat(self.plan.name, record["port"], record["health_port"])
        self.process = WatchedProcess.adopt(Identity(record["pid"], record["start_ticks"]))
        if self.process is not None:
            self.memory.adopt(self.process.pid)
            if record["ready"]:
                # It was ready under the earlier supervisor: one more success confirms it.
                self.ready_streak = self.launch.health.streak - 1
                self._ready_since = time.monotonic()
        return self.process is not None

    def record(self) -> dict[str, Any]:
        """What the next supervisor needs to adopt it."""
        return {
            "name": self.plan.name,
            "release": self.plan.release,
            "role": self.plan.role,
            "pid": self.process.pid if self.process else 0,
            "start_ticks": self.process.start_ticks if self.process else 0,
            "port": self.seat.port,
            "health_port": self.seat.health_port,
            "restarts": self.restarts,
            "proved": self.proved,
            "ready": self.ready,
        }

    @property
    def ready(self) -> bool:
        return self.phase == "ready"

    def moved_from(self, server: Server) -> bool:
        """Whether it answers elsewhere than the balancer's entry says."""
        seat = self.seat
        return seat.port != 0 and (seat.host, seat.port) != (server.host, server.port)

    @property
    def stopping(self) -> bool:
        return self.phase in ("stopping", "exited")

    async def stop(self) -> None:
        """SIGTERM, wait as long as the release allows, SIGKILL; what it started goes with it."""
        self._say("stopping", "told to stop")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        process = self.process
        if process is not None and process.running:
            process.signal(signal.SIGTERM)
            if not await process.wait(self.launch.stop_timeout_s):
                self._tell(f"ignored SIGTERM for {self.launch.stop_timeout_s:g} s and is killed")
                process.signal(signal.SIGKILL)
                await process.wait(KILL_WAIT_S)
        if left := (await self._end_rest(process)).text:
            self._tell(f"is stopped; {left}")
        self.memory.release()
        self._say("exited", "stopped")

    def kill(self, reason: str) -> None:
        """End the process at once for a reason that is reported; it is then restarted."""
        if self.process is not None and self.process.running:
            self._kill_reason = reason
            self.process.signal(signal.SIGKILL)

    async def _keep_running(self) -> None:
        while True:
            pause_s = 0.0
            if self.process is None or not self.process.running:
                pause_s = await self._start()
            if self.process is not None and self.process.running:
                await self._until_exit(self.process)
                why = self._note_end(self.process)
                left = await self._end_rest(self.process, self.process.start_ticks)
                pause_s = self._after_exit(why, left)
            self._around.changed()
            await asyncio.sleep(pause_s)

    async def _start(self) -> float:
        """Start the process; the pause in seconds before the next try when that failed."""
        self._owned = False
        self._kill_reason = ""
        self._live_failures = 0
        try:
            self.launch = launching.load(self._around.household.layout, self.plan.release)
            self.process = self._spawn()
        except (OSError, OpsctlError) as error:
            self._say("backoff", f"cannot be started: {error}")
            self._tell(self.reason)
            return self._crash_pause()
        self.memory.limit(self.process.pid)
        self._say("starting", self._with_last_end("started"))
        self._tell(f"started: pid {self.process.pid}, port {self.seat.port}")
        self._around.changed()
        return 0.0

    def _spawn(self) -> WatchedProcess:
        self.seat = replica_start.seat_for(self.seat, self.launch, self._around)
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        self._started_at = time.monotonic()
        popen = replica_start.spawn(self.plan, self.launch, self.seat, self._around.household)
        return WatchedProcess.of_child(popen)

    async def _until_exit(self, process: Watched) -> None:
        probing = asyncio.create_task(self._probe_on(process))
        try:
            await asyncio.wait({process.exited})
        finally:
            probing.cancel()
            # Not `await probing` with its cancellation suppressed: ours would be lost with it,
            # and a replica that was told to stop would be restarted for ever.
            await asyncio.wait({probing})
        if not probing.cancelled():
            probing.result()  # what went wrong in a probe is not to be lost

    async def _probe_on(self, process: Watched) -> None:
        while process.running:
            result = await self._ask(self.launch.health.path)
            if result.ok and not self._owned:
                result = await self._prove_owner(process)
            if result.status == 0 and self.ready:
                # Its connections end before it does: then its end is the news, not the probe.
                await self._let_die(process)
            if process.running:
                self._take(result)
            if not result.ok and self._ready_since is not None:
                await self._check_live()
            await asyncio.sleep(self._pause_s())

    async def _let_die(self, process: Watched) -> None:
        for _ in range(DYING_LOOKS):
            if await process.wait(DYING_S) or not procfs.is_ending(process.pid):
                return

    async def _ask(self, path: str) -> ProbeResult:
        timeout_s = self.launch.health.timeout_s
        return await probe.get(self.seat.host, self.seat.health_port, path, timeout_s)

    def _pause_s(self) -> float:
        """Time to the next probe: short while there is something to wait for."""
        interval_s = self.launch.health.interval_s
        if not self._owned:
            return START_PROBE_S
        if self.ready_streak > 0 and not self.ready:
            return min(interval_s, STREAK_PROBE_S)
        return interval_s

    async def _prove_owner(self, process: Watched) -> ProbeResult:
        """Whether the answer is the replica's own: somebody else may sit on its port."""
        members = procfs.sessions().get(process.pid, [])
        for port in (self.seat.health_port, self.seat.port):
            stranger = ports.stranger_on(port, members)
            if stranger:
                self.kill(f"port {port} is held by {stranger}, not by the replica")
                return ProbeResult(0, self._kill_reason)
            if stranger is None:
                return ProbeResult(0, f"nobody listens on its service port {port} yet")
        self._owned = True
        return ProbeResult(200, "")

    def _take(self, result: ProbeResult) -> None:
        """Count a probe, and change the phase by it."""
        if result.ok:
            self.ready_streak += 1
            self.failed_probes = 0
            self._live_failures = 0
            if self.ready_streak >= self.launch.health.streak and not self.ready:
                self.proved = self.came_back = True
                self.lost = False
                self._ready_since = self._ready_since or time.monotonic()
                self._ended = ""
                self._say("ready", "")
                took_s = time.monotonic() - self._started_at
                self._tell(f"ready after {took_s:.1f} s" if self._started_at else "ready")
                self._around.changed()
            return
        self.ready_streak = 0
        self.failed_probes += 1
        if self.failed_probes == LOST_AFTER and self.proved:
            self.lost = True
            self._around.changed()
        if self.phase == "ready":
            self._tell(f"not ready any more: {result.reason}")
            self._say("unready", result.reason)
            self._around.changed()
        else:
            self.reason = self._with_last_end(result.reason)

    async def _check_live(self) -> None:
        """Ask a replica that is not ready whether it lives; a dead one is restarted.

        404: the application has no liveness path, and its process is the only sign of life.
        """
        result = await self._ask(self.launch.health.live_path)
        self._live_failures = 0 if result.ok or result.status == 404 else self._live_failures + 1
        if self._live_failures >= LIVE_FAILURES_MAX:
            self.kill(f"killed: not alive, {LIVE_FAILURES_MAX} times: {result.reason}")

    def _note_end(self, process: Watched) -> str:
        """Why it ended, said at once: whoever looks now must not read the last probe's words."""
        self._around.crashed(self.plan.name)
        self.exit_code = process.exit_code
        self.ready_streak = 0
        why = self._why_ended(process)
        self._say("unready" if self.ready else self.phase, why)
        return why

    def _after_exit(self, why: str, left: Ended) -> float:
        """What comes after its end; the pause in seconds before the next start."""
        reason = self._ended = "; ".join(filter(None, (why, left.text)))
        never_ready = self._ready_since is None
        if never_ready and self._port_lost() and self._port_tries < PORT_TRIES_MAX:
            self._port_tries += 1
            self._say("starting", reason)
            self._tell(f"{reason}; trying another port")
            self.seat = Seat(self.plan.name, 0, 0)
            return 0.0
        self.restarts += 1
        pause_s = self._crash_pause()
        self._ready_since = None
        looping = self._crashes.looping(time.monotonic(), self.launch.health.max_restarts)
        self._say("crash_loop" if looping else "backoff", reason)
        self._tell(f"{reason}; next start in {pause_s:g} s")
        return pause_s

    async def _end_rest(self, process: Watched | None, since_ticks: int = 0) -> Ended:
        """End what outlived the process: that may hold the next one's ports."""
        return await self._remains.end(process.pid if process else None, since_ticks)

    def _with_last_end(self, reason: str) -> str:
        """What is seen now must not hide why it had to be started again."""
        return f"{reason}; before that: {self._ended}" if self._ended else reason

    def _crash_pause(self) -> float:
        now = time.monotonic()
        healthy_s = now - self._ready_since if self._ready_since is not None else 0.0
        return self._crashes.record(now, healthy_s, self.launch.health.max_restarts)

    def _port_lost(self) -> bool:
        """Whether somebody else took a port of ours before the replica could."""
        return any(port_holder(port) for port in {self.seat.port, self.seat.health_port})

    def _why_ended(self, process: Watched) -> str:
        reason = self._kill_reason or self.memory.verdict() or exit_text(process.exit_code)
        if self._started_at:
            reason += f" {time.monotonic() - self._started_at:.1f} s after its start"
        held = ""
        if self._ready_since is None:
            held = ports.held_by_others([*self.launch.command, *self.launch.env.values()], ())
        tail = last_lines(self._log, self._log_start)
        parts = [reason, held, f"last log lines: {tail}" if tail else ""]
        return self.launch.redacted("; ".join(filter(None, parts)))

    def _say(self, phase: Phase, reason: str) -> None:
        self.phase, self.reason = phase, reason

    def _tell(self, text: str) -> None:
        self._around.tell(self.plan.release, f"{self.plan.name} {text}")
