"""From the state that is wanted to the one that runs: one small step after another."""

from __future__ import annotations

import time
from collections.abc import Mapping

from opsctl.errors import OpsctlError, TargetUnreachable
from opsctl.model import DesiredState
from opsctl.targets.supervisor import ports
from opsctl.targets.supervisor.balancer import Balancer
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.fleet import Fleet, plans
from opsctl.targets.supervisor.removal import Removals
from opsctl.targets.supervisor.replica_plan import ReplicaPlan
from opsctl.targets.supervisor.store import Store
from opsctl.targets.supervisor.traffic_plan import next_percents, placed


class Steering:
    """Moves replicas and traffic of one service."""

    def __init__(self, store: Store, fleet: Fleet, balancer: Balancer, removals: Removals) -> None:
        self._store = store
        self._fleet = fleet
        self._balancer = balancer
        self._removals = removals

    def effective(self) -> DesiredState:
        """What is really to run: the safe state when the guard acted, without retired releases."""
        memory = self._store.memory
        kept = (s for s in self._ordered().shares if s.weight or s.release not in memory.retired)
        return DesiredState(tuple(kept))

    async def step(self, tell: Tell) -> None:
        """Do what can be done now. Raises TargetUnreachable; then it is tried again.

        A replica that can't be started or settings that HAProxy refuses hold up nothing else:
        traffic must leave a bad release whatever is wrong besides.
        """
        self._retire(tell)
        state = self.effective()
        wanted = plans(state)
        self._removals.cancel_wanted(wanted)
        problems = self._fleet.start_missing(wanted)
        try:
            await self._keep_balancer(state)
        except OpsctlError as error:
            problems.append(error)
        await self._take_out_strays()
        self._note_complete(state)
        await self._shift(state, wanted, tell)
        self._remove_surplus(wanted)
        if problems:
            raise problems[0]

    def converged(self) -> bool:
        """Whether everything is as `effective` says."""
        memory, servers = self._store.memory, self._balancer.servers
        state, settings = self.effective(), memory.settings
        wanted, runners = plans(state), self._fleet.runners
        percents = _percents(state)
        serving = {name for name, plan in wanted.items() if plan.role == "serving"}
        carrying = {server.release for server in servers.values() if server.weight > 0}
        return (
            set(wanted) == set(runners)
            and all(runner.ready and not runner.came_back for runner in runners.values())
            and all(runners[name].plan.cpus == plan.cpus for name, plan in wanted.items())
            and percents == memory.percents
            and (self._balancer.up or not serving)
            and not (settings and self._balancer.must_reload(settings, memory.front_port))
            and serving == set(servers)
            and carrying == set(percents)
        )

    def _ordered(self) -> DesiredState:
        memory = self._store.memory
        return memory.guard.safe if memory.guarded else memory.desired

    def _retire(self, tell: Tell) -> None:
        memory, now = self._store.memory, time.time()
        for share in self._ordered().shares:
            due = share.retire_at is not None and share.retire_at <= now and share.weight == 0
            if due and share.release not in memory.retired:
                memory.retired.append(share.release)
                self._store.touch()
                text = f"{share.release} retired: its time as a warm release is over"
                tell(share.release, text)

    async def _keep_balancer(self, state: DesiredState) -> None:
        settings = self._store.memory.settings
        serving = sum(share.replicas for share in state.shares if share.role == "serving")
        if settings is None or not (serving or self._balancer.up):
            return
        memory = self._store.memory
        try:
            await self._balancer.ensure_up(settings, memory.front_port, serving)
        except TargetUnreachable:
            if settings.port or memory.front_opened or ports.is_free(memory.front_port):
                raise
            # Another service took the first free port between our look and our start.
            memory.front_port = ports.choose_front(settings.host, settings.section)
            self._store.touch()
            await self._balancer.ensure_up(settings, memory.front_port, serving)
        if not memory.front_opened:
            memory.front_opened = True
            self._store.touch()

    async def _take_out_strays(self) -> None:
        """Servers without a replica go, and one that came back elsewhere joins anew."""
        for name, server in list(self._balancer.servers.items()):
            runner = self._fleet.runners.get(name)
            stray = runner is None and name not in self._removals
            if stray or (runner and runner.moved_from(server)):
                await self._balancer.remove(name, 0.0)
                await self._balancer.vacate(name)

    def _note_complete(self, state: DesiredState) -> None:
        """Remember releases that have all their replicas ready; forget those that left."""
        memory = self._store.memory
        releases = {share.release for share in state.shares} | set(memory.percents)
        complete = {release for release in memory.complete if release in releases}
        for share in state.shares:
            if share.role == "serving" and self._fleet.ready(share.release) >= share.replicas > 0:
                complete.add(share.release)
        if memory.complete != sorted(complete):
            memory.complete = sorted(complete)
            self._store.touch()

    async def _shift(
        self, state: DesiredState, wanted: Mapping[str, ReplicaPlan], tell: Tell
    ) -> None:
        """Give each replica its weight: file first, then the running balancer."""
        memory, balancer = self._store.memory, self._balancer
        members = self._fleet.balanced(wanted, balancer.servers)
        members = [m for m in members if m.server.name not in self._removals]
        percents = next_percents(state, memory.percents, members, memory.complete)
        balancer.note = {"stamp": memory.stamp.to_dict(), "percents": percents}
        if not balancer.up:
            return
        await balancer.put(placed(percents, members, balancer.servers))
        await self._tell_health()
        if percents != memory.percents:
            shares = ", ".join(f"{release} {percent} %" for release, percent in percents.items())
            for release in {*percents, *memory.percents}:
                tell(release, f"traffic: {shares or 'nothing serves'}")
            memory.percents = percents
            self._store.touch()

    async def _tell_health(self) -> None:
        """HAProxy may still believe what its last check saw of a replica."""
        for name, runner in list(self._fleet.runners.items()):
            if runner.came_back:
                runner.came_back = False
                await self._balancer.report_up(name)
            elif runner.lost:
                runner.lost = False
                await self._balancer.report_down(name)

    def _remove_surplus(self, wanted: Mapping[str, ReplicaPlan]) -> None:
        """Begin to remove what is not wanted and has no traffic any more."""
        memory = self._store.memory
        drain_s = memory.settings.drain_timeout_s if memory.settings else 0.0
        staying = {plan.release for plan in wanted.values() if plan.role == "serving"}
        for name, runner in list(self._fleet.runners.items()):
            if name in wanted or name in self._removals:
                continue
            release, server = runner.plan.release, self._balancer.servers.get(name)
            waits = release in memory.percents and release not in staying
            if runner.plan.role == "serving" and (waits or (server and server.weight > 0)):
                continue  # its release carries traffic until another one can take it
            self._removals.begin(name, drain_s)


def _percents(state: DesiredState) -> dict[str, int]:
    return {share.release: share.weight for share in state.shares if share.weight > 0}
