"""All replicas of a service: those that run, those that leave."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Container, Mapping
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.model import DesiredState, Replica, Role
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.haproxy_process import BALANCER_MARK
from opsctl.targets.supervisor.launch import Launch
from opsctl.targets.supervisor.replica import ReplicaRunner
from opsctl.targets.supervisor.replica_plan import ReplicaPlan, Surroundings
from opsctl.targets.supervisor.traffic_plan import Member
from opsctl.targets.supervisor.watched import kill_now, pin

MEMORY_WATCH_S = 0.25
KERNEL_WATCH_S = 1.0
"""The kernel kills by itself; it only has to be noticed, as the victim may be a child."""

SCAN_S = 1.0
"""How long a scan of the process table is believed."""


def plans(state: DesiredState) -> dict[str, ReplicaPlan]:
    """The replicas that a state wants, by name: r12-1, r12-2, and r11-b1 for a baseline copy."""
    wanted = {}
    for share in state.shares:
        mark = "b" if share.role == "baseline" else ""
        for number in range(1, share.replicas + 1):
            name = f"{share.release}-{mark}{number}"
            wanted[name] = ReplicaPlan(name, share.release, share.role, share.cpus)
    return wanted


class Fleet:
    """The replicas by name."""

    def __init__(self, around: Surroundings) -> None:
        self.runners: dict[str, ReplicaRunner] = {}
        self._around = around
        self._members: dict[int, list[int]] = {}
        self._scanned_at = float("-inf")

    def rename(self, service: str, environment: str) -> None:
        """Name the service for the environment of replicas that are started from now on."""
        household = dataclasses.replace(
            self._around.household, service=service, environment=environment
        )
        self._around = dataclasses.replace(self._around, household=household)

    async def adopt(self, records: list[dict[str, Any]], wanted: Container[str]) -> None:
        """Take over what runs already; what is marked as ours and is nobody's is killed.

        Of `wanted` replicas those that ended meanwhile are started again.
        """
        layout = self._around.household.layout
        found = procfs.marked(layout.service_dir)
        known = {record["name"]: record for record in records}
        for name, pid in procfs.leaders(found).items():
            if name not in known:
                known[name] = _record_of(pid, name, found[pid])
        kept: set[str] = set()
        for record in known.values():
            plan = ReplicaPlan(record["name"], record["release"], record["role"])
            try:
                launch = launching.load(layout, plan.release)
            except OpsctlError as error:
                # It may be serving: it is kept, and only its next start will fail.
                self._around.tell(plan.release, str(error))
                launch = Launch(plan.release, (), "", layout.run)
            runner = self._made(plan, launch)
            adopted = runner.adopt(record)
            if adopted:
                kept.add(plan.name)
                self._around.tell(plan.release, f"{plan.name} adopted: pid {record['pid']}")
            elif plan.name not in wanted:
                continue
            elif record["pid"] and found:
                runner.restarts += 1
                self._around.tell(plan.release, f"{plan.name} ended while nobody watched")
            elif record["pid"]:
                # Nothing at all is left: the machine was restarted, and no replica is to blame.
                self._around.tell(plan.release, f"{plan.name} ended with everything else")
            self.runners[plan.name] = runner
            runner.begin()
        self._kill_orphans(found, kept)

    def _kill_orphans(self, found: Mapping[int, Mapping[str, str]], kept: Container[str]) -> None:
        """End what belongs to none of the replicas that were adopted.

        What such a replica started is its own, in whatever session it is.
        """
        for pid, env in found.items():
            process = procfs.identity(pid)
            if process is None or BALANCER_MARK in env or env.get(procfs.REPLICA_MARK) in kept:
                continue
            kill_now(process)
            release = env.get("OPSCTL_RELEASE", "")
            self._around.tell(release, f"orphan pid {pid} of {release} killed")

    def start_missing(self, wanted: Mapping[str, ReplicaPlan]) -> list[OpsctlError]:
        """Start replicas that are wanted and not there; pin those whose CPUs changed.

        What goes wrong with one of them is returned, and does not hold up the others.
        """
        problems: list[OpsctlError] = []
        for name, plan in wanted.items():
            runner = self.runners.get(name)
            if runner is None:
                try:
                    launch = launching.load(self._around.household.layout, plan.release)
                except OpsctlError as error:
                    problems.append(error)
                    continue
                self.runners[name] = self._made(plan, launch)
                self.runners[name].begin()
            elif runner.plan.cpus != plan.cpus and not runner.stopping:
                runner.plan = plan
                self._pin(runner)
        return problems

    def _made(self, plan: ReplicaPlan, launch: Launch) -> ReplicaRunner:
        return ReplicaRunner(plan, launch, self._around)

    def _pin(self, runner: ReplicaRunner) -> None:
        """Move a replica to the CPUs that its plan says."""
        if runner.process is not None:
            members = self.members(fresh=True).get(runner.process.pid, [])
            pin(members, runner.plan.cpus or runner.launch.cpus)

    def balanced(
        self, wanted: Mapping[str, ReplicaPlan], present: Mapping[str, Server]
    ) -> list[Member]:
        """Serving replicas that are ready, or stand in the balancer already."""
        found = []
        for name, runner in self.runners.items():
            if runner.plan.role != "serving" or runner.stopping:
                continue
            if runner.ready or name in present:
                rule = runner.launch.health
                seat = runner.seat
                server = Server(name, seat.port, seat.health_port, rule.path, seat.host)
                found.append(Member(server, runner.ready, name in wanted))
        return found

    def members(self, *, fresh: bool = False) -> dict[int, list[int]]:
        """Processes by session; a scan of the process table at most each second."""
        now = time.monotonic()
        if fresh or now - self._scanned_at > SCAN_S:
            self._members, self._scanned_at = procfs.sessions(), now
        return self._members

    def observed(self) -> tuple[Replica, ...]:
        """All replicas as `observe` reports them."""
        members = self.members()
        return tuple(
            _observed(runner, self._rss(runner, members)) for runner in self.runners.values()
        )

    def ready(self, release: str) -> int:
        """How many serving replicas of a release are ready."""
        plans_ready = [runner.plan for runner in self.runners.values() if runner.ready]
        return sum(p.release == release and p.role == "serving" for p in plans_ready)

    def restarts(self, release: str) -> int:
        return sum(r.restarts for r in self.runners.values() if r.plan.release == release)

    def failed_probes(self, release: str) -> int:
        """The longest row of failed readiness probes of a replica that had been ready."""
        of_release = (r for r in self.runners.values() if r.plan.release == release and r.proved)
        return max((runner.failed_probes for runner in of_release), default=0)

    def taken_ports(self) -> set[int]:
        return {port for r in self.runners.values() for port in (r.seat.port, r.seat.health_port)}

    async def watch_memory(self) -> None:
        """Kill replicas that are over their limit. Runs until cancelled."""
        while True:
            limited = [r for r in self.runners.values() if r.memory.limit_mb is not None]
            watched = [runner for runner in limited if runner.memory.by_watchdog]
            for runner in watched:
                excess = runner.memory.excess(self._rss(runner, self.members()))
                if excess:
                    runner.kill(excess)
            for runner in limited:
                if runner not in watched and runner.memory.kernel_killed:
                    runner.kill(runner.memory.verdict())
            await asyncio.sleep(MEMORY_WATCH_S if watched else KERNEL_WATCH_S)

    def _rss(self, runner: ReplicaRunner, members: Mapping[int, list[int]]) -> int:
        process = runner.process
        if process is None or not process.running:
            return 0
        return procfs.rss_bytes(members.get(process.pid, [process.pid]))


def _observed(runner: ReplicaRunner, rss_bytes: int) -> Replica:
    """A replica as `observe` reports it."""
    process, seat = runner.process, runner.seat
    return Replica(
        name=runner.plan.name,
        release=runner.plan.release,
        role=runner.plan.role,
        phase=runner.phase,
        host=seat.host,
        port=seat.port,
        health_port=seat.health_port,
        pid=process.pid if process and process.running else 0,
        restarts=runner.restarts,
        exit_code=runner.exit_code,
        reason=runner.reason,
        rss_bytes=rss_bytes,
        ready_streak=runner.ready_streak,
    )


def _record_of(pid: int, name: str, env: Mapping[str, str]) -> dict[str, Any]:
    """A replica's record made from its environment, when the supervisor's memory is lost."""
    found = procfs.identity(pid)
    role: Role = "baseline" if name.partition("-")[2].startswith("b") else "serving"
    return {
        "name": name,
        "release": env["OPSCTL_RELEASE"],
        "role": role,
        "pid": pid,
        "start_ticks": found.start_ticks if found else 0,
        "port": int(env["OPSCTL_PORT"]),
        "health_port": int(env["OPSCTL_HEALTH_PORT"]),
        "restarts": 0,
        "proved": False,
        "ready": False,
    }
