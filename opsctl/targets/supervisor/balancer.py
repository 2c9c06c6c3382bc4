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
from opsctl.targets.supervisor import haproxy_config, runtime_api, server_changes, tls
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.haproxy_process import Haproxy
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.ports import is_free, taken_by
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.runtime_api import ServerRow, Statistics

POLL_S = 0.02
RECHECK_S = 5.0
"""How often HAProxy is asked whether it still has what it was told (people have sockets too)."""

DELETE_LIMIT_S = 5.0
"""How long a drained server's idle connections may keep it; they are purged each second."""


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
        """Gets the counters of a server before it is deleted with them."""
        self._layout = layout
        self._tell = tell
        self._frame = ""
        self._certificate_seen: tuple[int, ...] = ()
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
        paths = _health_paths(self._layout)
        for row in (await runtime_api.servers()).values():
            self.servers[row.name] = Server(
                name=row.name,
                port=row.port,
                health_port=row.health_port,
                health_path=paths.get(row.name, "/health/ready"),
                weight=row.weight,
                maint=row.maint,
            )

    def must_reload(self, settings: RunSettings, port: int) -> bool:
        """Whether the running HAProxy has other settings of its own."""
        return self.up and self._frame != haproxy_config.frame_digest(settings, port)

    async def ensure_up(self, settings: RunSettings, port: int) -> None:
        """Start HAProxy, or reload it when its own settings changed. Raises TargetUnreachable.

        Settings that it refuses leave the running HAProxy and its file as they were.
        """
        async with self._lock:
            before = self.settings, self.port
            self.settings, self.port = settings, port
            if not self.up:
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
        """Drain a server and take it out. False when requests were cut at the time limit.

        While HAProxy is down the file alone is changed: it then starts without that server.
        """
        async with self._lock:
            server = self.servers.get(name)
            if server is None:
                return True
            if not self.up:
                self._forget(name)
                return True
            idle = dataclasses.replace(server, weight=0, maint=True)
            await self._put({**self.servers, name: idle})
        drained = await self._drained(name, drain_timeout_s)
        async with self._lock:
            self._forget(name)
            if self.up and name in await runtime_api.servers():
                await self._delete(name)
        return drained

    def _forget(self, name: str) -> None:
        self.servers = {other: kept for other, kept in self.servers.items() if other != name}
        self._write()

    async def report_up(self, name: str) -> None:
        """Tell HAProxy that a replica is back. Raises TargetUnreachable."""
        await self._report(name, "up")

    async def _report_down(self, name: str) -> None:
        # HAProxy's own check notices too, a moment later.
        with contextlib.suppress(TargetUnreachable):
            await self._report(name, "down")

    async def _report(self, name: str, health: str) -> None:
        if name in self.servers and self.up:
            await runtime_api.command([f"set server {runtime_api.BACKEND}/{name} health {health}"])

    async def refresh_certificate(self) -> None:
        """Push changed certificate files to HAProxy; no connection is dropped."""
        settings = self.settings
        if settings is None or not settings.tls or not self.up:
            return
        seen = tls.fingerprint(settings)
        if seen == self._certificate_seen:
            return
        async with self._lock:
            self._certificate_seen = seen
            self._tell("", await tls.push(settings, self._layout.certificate))

    def replica_ended(self, name: str) -> None:
        """Take a dead replica out at once, unless it is the only one: then requests wait for it."""
        others = [s for s in self.servers.values() if s.weight > 0 and s.name != name]
        if others:
            task = asyncio.create_task(self._report_down(name))
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

    async def stop(self) -> None:
        """End HAProxy and forget its servers."""
        await self.process.stop()
        self.servers.clear()

    async def _put(self, wanted: dict[str, Server]) -> None:
        self._agreed_at = float("-inf")
        if wanted != self.servers:
            self.servers = wanted
            self._write()
        if not self.up:
            raise TargetUnreachable("the load balancer is not running")
        have = await self._swept(wanted)
        changes = [
            f"add map health.map {name} {server.health_path}"
            for name, server in wanted.items()
            if name not in have
        ]
        changes += server_changes.commands(have, wanted)
        if changes:
            answer = await runtime_api.command(changes)
            left = server_changes.commands(await runtime_api.servers(), wanted)
            if left:
                raise TargetUnreachable(
                    "HAProxy did not take its changes", why=f"{left[0]}: {' '.join(answer.split())}"
                )
        self._agreed_at = time.monotonic()

    async def _swept(self, wanted: Mapping[str, Server]) -> dict[str, ServerRow]:
        """The servers of the running HAProxy, after those that an interrupted removal left."""
        have = await runtime_api.servers()
        stale = server_changes.stale(have, wanted)
        if stale:
            await runtime_api.command(server_changes.deletions(stale))
            have = await runtime_api.servers()
            if any(name in wanted for name in server_changes.stale(have, wanted)):
                raise TargetUnreachable("HAProxy still uses an old address of a replica")
        return have

    async def _delete(self, name: str) -> None:
        """Delete a drained server; its idle connections may hold it for a moment."""
        where = f"{runtime_api.BACKEND}/{name}"
        limit = time.monotonic() + DELETE_LIMIT_S
        while True:
            await runtime_api.command([f"del map health.map {name}", f"del server {where}"])
            if name not in await runtime_api.servers():
                return
            if time.monotonic() > limit:
                await runtime_api.command([f"shutdown sessions server {where}"])
                limit += DELETE_LIMIT_S
            await asyncio.sleep(POLL_S)

    async def _drained(self, name: str, timeout_s: float) -> bool:
        """Wait until no request is left with a server; its last counters are handed on."""
        limit = time.monotonic() + timeout_s
        while self.up:
            with contextlib.suppress(TargetUnreachable):
                seen = await runtime_api.statistics()
                self.counted(seen)
                row = next((row for row in seen.rows if row["svname"] == name), None)
                if row is None or int(row["scur"]) + int(row["qcur"]) == 0:
                    return True
            if time.monotonic() >= limit:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def _write(self) -> None:
        """Write the file; a full disk is told and tried again: traffic must move all the same."""
        paths = "".join(f"{s.name} {s.health_path}\n" for s in self.servers.values())
        text = self._rendered()
        try:
            # The map goes first: a HAProxy started between the two must know each server's path.
            write_atomically(self._layout.health_map, paths)
            write_atomically(self._layout.haproxy_config, text)
        except OSError as error:
            if not self._unwritten:
                self._tell("", f"cannot write {error.filename}: {error.strerror}; acting anyway")
            self._unwritten = True
        else:
            self._unwritten = False

    async def _start(self) -> None:
        settings = self._known()
        if not is_free(self.port, settings.host):
            raise TargetUnreachable(
                f"cannot open the front door on port {self.port}",
                why=taken_by(self.port),
                next_step="Stop it or set local.port in opsctl.yaml, then run: opsctl resume",
            )
        self._prepare_certificate(settings)
        self._write()
        await self._begin(settings)

    async def _reload(self) -> None:
        """Another HAProxy takes the listening sockets over and the old one ends by itself."""
        settings = self._known()
        self._prepare_certificate(settings)
        trial = self._layout.run / "haproxy.cfg.check"
        write_atomically(trial, self._rendered())
        await self.process.check(settings.haproxy, trial.name)
        self._write()
        await self._begin(settings)

    async def _begin(self, settings: RunSettings) -> None:
        self._agreed_at = float("-inf")
        await self.process.start(settings.haproxy, self.counted)
        self._frame = haproxy_config.frame_digest(settings, self.port)

    def _known(self) -> RunSettings:
        assert self.settings is not None, "ensure_up tells the settings first"
        return self.settings

    def _rendered(self) -> str:
        servers = self.servers.values()
        return haproxy_config.render(self._known(), self.port, servers, self.note)

    def _prepare_certificate(self, settings: RunSettings) -> None:
        if settings.tls:
            self._certificate_seen = tls.fingerprint(settings)
            tls.write_bundle(settings, self._layout.certificate)


def _health_paths(layout: Layout) -> dict[str, str]:
    try:
        lines = layout.health_map.read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(" ", 1) for line in lines if " " in line)
