"""The load balancer: one HAProxy, its file written first and its runtime API used second.

HAProxy outlives the supervisor. When it dies it is started from its file at once, with the
right servers and weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from opsctl.errors import OpsctlError, TargetUnreachable
from opsctl.files import write_atomically
from opsctl.targets.supervisor import haproxy_config, runtime_api, slot_changes
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.haproxy_config import FREE_SLOT, NOBODY, Server
from opsctl.targets.supervisor.haproxy_process import Haproxy
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.ports import is_free, taken_by
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.runtime_api import BACKEND, SlotRow, Statistics
from opsctl.targets.supervisor.slots import Slots, enough_for
from opsctl.targets.supervisor.tls import FrontCertificate
from opsctl.targets.supervisor.vacancies import Vacancies

POLL_S = 0.02
RECHECK_S = 5.0
"""How often HAProxy is asked whether it still has what it was told (people have sockets too)."""

VACATE_LIMIT_S = 2.0
"""How long a removal waits for its slot to be free; later it is freed with the next change."""


class Balancer:
    """HAProxy of one service. `servers` is what its file says."""

    def __init__(self, layout: Layout, process: Haproxy, tell: Tell) -> None:
        self.servers: dict[str, Server] = {}
        self.note: dict[str, Any] = {}
        """Kept in the file's comment: stamp and shares, to rebuild from."""
        self.port = 0
        self.settings: RunSettings | None = None
        self.process = process
        self.counted: Callable[[Statistics], None] = lambda seen: None
        """Gets the counters of a slot before it is another replica's."""
        self.certificate = FrontCertificate(layout.certificate, tell)
        self._layout = layout
        self._tell = tell
        self._slots = Slots()
        self._ended = Vacancies(self._slots)
        self._unread = False
        """Whether a HAProxy was adopted that did not tell its slots yet."""
        self._frame = ""
        self._lock = asyncio.Lock()
        self._unwritten = False
        self._agreed_at = float("-inf")
        """When the running HAProxy was last seen to have `servers`."""
        self._reports: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> bool:
        return self.process.up

    async def adopt(self, *, same_boot: bool) -> None:
        """Take over the HAProxy that an earlier supervisor started, with all its servers."""
        if not same_boot or not await self.process.adopt():
            return
        self._frame = haproxy_config.read_comment(self._layout.haproxy_config, "frame")
        self.note = haproxy_config.read_note(self._layout.haproxy_config)
        self._unread = True
        await self._read_slots()

    async def _read_slots(self) -> None:
        """Learn which slots an adopted HAProxy has: before that nothing of it may be changed.

        Raises TargetUnreachable.
        """
        if not (self._unread and self.up):
            return
        rows = await runtime_api.slots()
        held = {row.replica: row for row in rows.values() if row.replica != NOBODY}
        if any(name == row.slot for name, row in held.items()) or not rows:
            # An older opsctl named servers after replicas; the reload that follows gives slots.
            self._slots.adopt({}, enough_for(len(held)))
            self._slots.take(held, ())
        else:
            self._slots.adopt({name: row.slot for name, row in held.items()}, len(rows))
        self.servers = {name: row.as_server() for name, row in held.items()}
        # A supervisor that died between the two left a file that says more than HAProxy was told.
        self._unwritten = True
        self._unread = False

    def must_reload(self, settings: RunSettings, port: int) -> bool:
        """Whether the running HAProxy has other settings of its own."""
        return self.up and self._frame != haproxy_config.frame_digest(settings, port)

    async def ensure_up(self, settings: RunSettings, port: int, replicas: int) -> None:
        """Start HAProxy, or reload it when its own settings changed. Raises TargetUnreachable.

        A start has room for a rollout of `replicas`. Settings that HAProxy refuses leave the
        running one and its file as they were.
        """
        async with self._lock:
            await self._read_slots()
            before = self.settings, self.port
            self.settings, self.port = settings, port
            if not self.up:
                self._slots.grow(enough_for(replicas))
                await self._start()
            elif self.must_reload(settings, port):
                try:
                    await self._reload()
                except OpsctlError:
                    self.settings, self.port = before if before[0] else (settings, port)
                    raise
            elif self._unwritten:
                self._write()

    async def put(self, wanted: Mapping[str, Server]) -> None:
        """Make `wanted` the servers with their weights. File first. Raises TargetUnreachable.

        Servers that are missing in `wanted` lose their traffic, and stay until `remove`.
        """
        async with self._lock:
            await self._read_slots()
            leaving = {
                name: dataclasses.replace(server, weight=0, maint=True)
                for name, server in self.servers.items()
                if name not in wanted
            }
            whole = {**leaving, **wanted}
            checked_s = time.monotonic() - self._agreed_at
            if whole != self.servers or checked_s > RECHECK_S or self._unwritten:
                await self._put(whole)

    async def remove(self, name: str, drain_timeout_s: float) -> bool:
        """Drain a server and take it out. False when requests were left at the time limit.

        Its slot is kept until `vacate`. While HAProxy is down the file alone is changed: it then
        starts without that server.
        """
        async with self._lock:
            await self._read_slots()
            server = self.servers.get(name)
            if server is None:
                return True
            if self.up:
                idle = dataclasses.replace(server, weight=0, maint=True)
                await self._put({**self.servers, name: idle})
        drained = await self._drained(name, drain_timeout_s)
        async with self._lock:
            self.servers = {other: kept for other, kept in self.servers.items() if other != name}
            self._write()
        return drained

    async def vacate(self, name: str) -> None:
        """Free the slot of a removed replica whose process has ended: a connection to it, a check
        of it or an answer of it can't be met by the next replica then.

        What can't be freed soon is tried again with the next change.
        """
        self._ended.add(name)
        limit = time.monotonic() + VACATE_LIMIT_S
        while name in self._ended and time.monotonic() < limit:
            async with self._lock:
                await self._free_ended()
            await asyncio.sleep(POLL_S if name in self._ended else 0)

    async def _free_ended(self) -> None:
        """Free what can be freed now; it never holds up the traffic."""
        with contextlib.suppress(TargetUnreachable):
            await self._ended.free(self.counted, up=self.up, kept=self.servers)

    async def report_up(self, name: str) -> None:
        """Tell HAProxy that a replica is back. Raises TargetUnreachable."""
        await self._report(name, "up")

    async def report_down(self, name: str) -> None:
        """Take a replica out that is lost, unless it is the only one: then requests wait for it.

        HAProxy's own check notices too, a moment later.
        """
        if any(s.weight > 0 and s.name != name for s in self.servers.values()):
            with contextlib.suppress(TargetUnreachable):
                await self._report(name, "down")

    async def _report(self, name: str, health: str) -> None:
        slot = self._slots.held.get(name)
        if name in self.servers and slot and self.up:
            await runtime_api.command([f"set server {BACKEND}/{slot} health {health}"])

    async def refresh_certificate(self) -> None:
        """Push changed certificate files to HAProxy; no connection is dropped."""
        if self.settings is not None and self.up and self.certificate.must_look(self.settings):
            async with self._lock:
                await self.certificate.renew(self.settings)

    def replica_ended(self, name: str) -> None:
        """Tell HAProxy at once, while the replica's end is still being looked into."""
        task = asyncio.create_task(self.report_down(name))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def stop(self) -> None:
        """End HAProxy and forget its servers."""
        await self.process.stop()
        self.servers.clear()
        self._slots.adopt({}, 0)

    async def _put(self, wanted: dict[str, Server]) -> None:
        self._agreed_at = float("-inf")
        await self._free_ended()
        await self._take_slots(wanted)
        if wanted != self.servers or self._unwritten:
            self.servers = wanted
            self._write()
        if not self.up:
            raise TargetUnreachable("the load balancer is not running")
        want = {self._slots.held[name]: server for name, server in wanted.items()}
        changes = slot_changes.commands(await self._ready_for(want), want)
        if changes:
            answer = await runtime_api.command(changes)
            left = slot_changes.commands(await runtime_api.slots(), want)
            if left:
                raise TargetUnreachable(
                    "HAProxy did not take its changes", why=f"{left[0]}: {' '.join(answer.split())}"
                )
        self._agreed_at = time.monotonic()

    async def _take_slots(self, wanted: Mapping[str, Server]) -> None:
        """Give each server a slot; when there are too few the file gets more of them."""
        if all(name in self._slots.held for name in wanted):
            return
        busy = (await runtime_api.statistics()).busy if self.up else set()
        if not self._slots.take(wanted, busy):
            self._slots.grow(max(2 * len(self._slots.names), enough_for(len(wanted))))
            self._slots.take(wanted, busy)
            count = len(self._slots.names)
            self._tell("", f"load balancer: too few slots for the replicas, {count} from now on")

    async def _ready_for(self, want: Mapping[str, Server]) -> dict[str, SlotRow]:
        """The slots of the running HAProxy; those that get another replica have no request left."""
        have = await runtime_api.slots()
        if not want.keys() <= have.keys():
            await self._reload()
            have = await runtime_api.slots()
        changing = slot_changes.unbound(have, want)
        if changing:
            await runtime_api.command(slot_changes.rest(changing))
            seen = await runtime_api.statistics()
            self.counted(seen)
            if seen.busy.intersection(changing):
                raise TargetUnreachable("HAProxy still uses an old address of a replica")
        return have

    async def _drained(self, name: str, timeout_s: float) -> bool:
        """Wait until no request is left with a server; its counters are handed on."""
        limit = time.monotonic() + timeout_s
        while self.up:
            with contextlib.suppress(TargetUnreachable):
                seen = await runtime_api.statistics()
                self.counted(seen)
                if self._slots.held.get(name) not in seen.busy:
                    return True
            if time.monotonic() >= limit:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def _write(self) -> None:
        """Write the file; a full disk is told and tried again: traffic must move all the same."""
        paths = haproxy_config.render_map(self._by_slot())
        text = self._rendered()
        try:
            # The map goes first: a HAProxy started between the two must know each slot's replica.
            write_atomically(self._layout.slot_map, paths)
            write_atomically(self._layout.haproxy_config, text)
        except OSError as error:
            if not self._unwritten:
                self._tell("", f"cannot write {error.filename}: {error.strerror}; acting anyway")
            self._unwritten = True
        else:
            self._unwritten = False

    async def _start(self) -> None:
        settings = self._known()
        # One that came back by itself holds the port, and has read an older file perhaps.
        if not await self.process.revived() and not is_free(self.port, settings.host):
            raise TargetUnreachable(
                f"cannot open the front door on port {self.port}",
                why=taken_by(self.port),
                next_step=f"Stop it or set {settings.section}.port in opsctl.yaml,"
                " then run: opsctl resume",
            )
        self.certificate.prepare(settings)
        self._write()
        self._unread = False
        await self._begin(settings)

    async def _reload(self) -> None:
        """Another HAProxy takes the listening sockets over and the old one ends by itself."""
        settings = self._known()
        self.certificate.prepare(settings)
        trial = self._layout.run / "haproxy.cfg.check"
        # The map is read with the file, and no HAProxy that runs reads it again.
        write_atomically(self._layout.slot_map, haproxy_config.render_map(self._by_slot()))
        write_atomically(trial, self._rendered())
        await self.process.check(settings.haproxy, trial.name)
        self._write()
        await self._begin(settings)

    async def _begin(self, settings: RunSettings) -> None:
        self._agreed_at = float("-inf")
        self._frame = ""
        await self.process.start(settings.haproxy, self.counted)
        self._frame = haproxy_config.frame_digest(settings, self.port)

    def _known(self) -> RunSettings:
        assert self.settings is not None, "ensure_up tells the settings first"
        return self.settings

    def _rendered(self) -> str:
        return haproxy_config.render(self._known(), self.port, self._by_slot(), self.note)

    def _by_slot(self) -> dict[str, Server]:
        """What stands in each slot of the file."""
        taken = {self._slots.held[name]: server for name, server in self.servers.items()}
        return {slot: taken.get(slot, FREE_SLOT) for slot in self._slots.names}
