"""The load balancer: one HAProxy, its file written first and its runtime API used second.

HAProxy outlives the supervisor. When it dies it is started from its file at once, with the
right servers and weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from opsctl import shell
from opsctl.errors import TargetUnreachable
from opsctl.ports import port_holder
from opsctl.targets.supervisor import haproxy_config, procfs, runtime_api, server_changes, tls
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.files import write_atomically
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.ports import is_free
from opsctl.targets.supervisor.procfs import Identity
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.watched import WatchedProcess

BALANCER_MARK = "OPSCTL_BALANCER"
START_LIMIT_S = 5.0
POLL_S = 0.02
DELETE_LIMIT_S = 5.0
"""How long a drained server's idle connections may keep it; they are purged each second."""

STOP_LIMIT_S = 2.0


class Balancer:
    """HAProxy of one service. `servers` is what its file says."""

    def __init__(
        self, layout: Layout, env: Mapping[str, str], tell: Tell, changed: Callable[[], None]
    ) -> None:
        self.servers: dict[str, Server] = {}
        self.note: dict[str, Any] = {}
        """Kept in the file's comment: stamp and shares, to rebuild from."""
        self.port = 0
        self.settings: RunSettings | None = None
        self._layout = layout
        self._env = {
            **{name: env[name] for name in ("PATH", "HOME", "TZ") if name in env},
            procfs.SERVICE_MARK: str(layout.service_dir),
            BALANCER_MARK: "1",
        }
        self._tell = tell
        self._changed = changed
        self._process: WatchedProcess | None = None
        self._frame = ""
        self._certificate_seen: tuple[int, ...] = ()
        self._lock = asyncio.Lock()
        self._stopping = False
        self._unwritten = False
        self._restarts: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def identity(self) -> Identity | None:
        return self._process.identity if self._process else None

    async def adopt(self, *, same_boot: bool) -> None:
        """Take over the HAProxy that an earlier supervisor started, with all its servers."""
        found = _running(self._layout) if same_boot else None
        self._process = WatchedProcess.adopt(found) if found else None
        if self._process is None:
            return
        self._watch(self._process)
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
        """Start HAProxy, or reload it when its own settings changed. Raises TargetUnreachable."""
        async with self._lock:
            self.settings, self.port = settings, port
            if not self.up:
                await self._start()
            elif self.must_reload(settings, port):
                await self._reload()
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
            await self._put({**leaving, **wanted})

    async def remove(self, name: str, drain_timeout_s: float) -> bool:
        """Drain a server and take it out. False when requests were cut at the time limit."""
        server = self.servers.get(name)
        if server is None:
            return True
        async with self._lock:
            idle = dataclasses.replace(server, weight=0, maint=True)
            await self._put({**self.servers, name: idle})
        drained = await self._drained(name, drain_timeout_s)
        async with self._lock:
            rest = {other: kept for other, kept in self.servers.items() if other != name}
            await self._put(rest, delete=name)
        return drained

    async def report_down(self, name: str) -> None:
        """Tell HAProxy of a dead replica before its own check notices."""
        with contextlib.suppress(TargetUnreachable):
            await self._report(name, "down")

    async def report_up(self, name: str) -> None:
        """Tell HAProxy that a replica is back. Raises TargetUnreachable."""
        await self._report(name, "up")

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

    async def stop(self) -> None:
        """End HAProxy: no new connections, then what is left is cut."""
        self._stopping = True
        process, self._process = self._process, None
        if process is not None:
            process.signal(signal.SIGUSR1)
            if not await process.wait(STOP_LIMIT_S):
                process.signal(signal.SIGKILL)
                await process.wait(STOP_LIMIT_S)
        self.servers.clear()

    async def _put(self, wanted: dict[str, Server], delete: str = "") -> None:
        if wanted != self.servers:
            self.servers = wanted
            self._write()
        if not self.up:
            raise TargetUnreachable("the load balancer is not running")
        have = await runtime_api.servers()
        changes = [
            f"{'set' if name in have else 'add'} map health.map {name} {server.health_path}"
            for name, server in wanted.items()
            if name not in have
        ]
        changes += server_changes.commands(have, wanted)
        if changes:
            answer = await runtime_api.command(changes)
            have = await runtime_api.servers()
            left = server_changes.commands(have, wanted)
            if left:
                raise TargetUnreachable(
                    "HAProxy did not take its changes", why=f"{left[0]}: {' '.join(answer.split())}"
                )
        if delete in have:
            await self._delete(delete)

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
        limit = time.monotonic() + timeout_s
        while self.up:
            with contextlib.suppress(TargetUnreachable):
                for row in await runtime_api.statistics():
                    if row["svname"] == name and int(row["scur"]) + int(row["qcur"]) == 0:
                        return True
            if time.monotonic() >= limit:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def _write(self) -> None:
        """Write the file; a full disk is told and tried again: traffic must move all the same."""
        assert self.settings is not None
        paths = "".join(f"{s.name} {s.health_path}\n" for s in self.servers.values())
        text = haproxy_config.render(self.settings, self.port, self.servers.values(), self.note)
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
        settings = self.settings
        assert settings is not None
        if not is_free(self.port, settings.host):
            raise TargetUnreachable(
                f"cannot open the front door on port {self.port}",
                why=taken_by(self.port),
                next_step="Stop it or set local.port in opsctl.yaml, then run: opsctl resume",
            )
        self._prepare_certificate(settings)
        self._write()
        await self._spawn([])

    async def _reload(self) -> None:
        """Another HAProxy takes the listening sockets over and the old one ends by itself."""
        settings, old = self.settings, self._process
        assert settings is not None and old is not None
        self._prepare_certificate(settings)
        self._write()
        checked = shell.run(
            [settings.haproxy, "-c", "-q", "-f", self._layout.haproxy_config.name],
            timeout_s=START_LIMIT_S,
            cwd=self._layout.run,
            env=self._env,
        )
        if not checked.ok:
            raise TargetUnreachable("HAProxy refuses its new settings", why=checked.why)
        await self._spawn(["-x", "admin.sock", "-sf", str(old.pid)])
        self._tell("", f"load balancer reloaded with new settings: pid {old.pid} hands over")

    async def _spawn(self, more: list[str]) -> None:
        settings = self.settings
        assert settings is not None
        argv = [settings.haproxy, "-db", "-f", self._layout.haproxy_config.name, *more]
        try:
            popen = shell.spawn(
                argv, cwd=self._layout.run, env=self._env, log=self._layout.haproxy_log
            )
        except OSError as error:
            raise TargetUnreachable(
                f"cannot start {settings.haproxy}",
                why=error.strerror or str(error),
                next_step="Install HAProxy 2.5 or newer, or set local.haproxy.",
            ) from error
        process = WatchedProcess.of_child(popen)
        await self._answers(process)
        self._process = process
        self._frame = haproxy_config.frame_digest(settings, self.port)
        with contextlib.suppress(OSError):
            identity = process.identity
            self._layout.haproxy_pid_file.write_text(f"{identity.pid} {identity.start_ticks}\n")
        self._watch(process)
        self._tell("", f"load balancer started: pid {process.pid}, port {self.port}")

    async def _answers(self, process: WatchedProcess) -> None:
        """Wait until the new process itself answers on the admin socket."""
        limit = time.monotonic() + START_LIMIT_S
        while process.running and time.monotonic() < limit:
            with contextlib.suppress(TargetUnreachable):
                if f"\nPid: {process.pid}\n" in await runtime_api.command(["show info"]):
                    return
            await asyncio.sleep(POLL_S / 2)
        process.signal(signal.SIGKILL)
        raise TargetUnreachable(
            "HAProxy did not start",
            why=_last_line(self._layout),
            next_step=f"See {self._layout.haproxy_log}",
        )

    def _watch(self, process: WatchedProcess) -> None:
        async def restart() -> None:
            await process.exited
            if self._stopping or process is not self._process:
                return
            self._tell("", f"load balancer pid {process.pid} ended; it is started again")
            self._changed()

        task = asyncio.create_task(restart())
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    def _prepare_certificate(self, settings: RunSettings) -> None:
        if settings.tls:
            self._certificate_seen = tls.fingerprint(settings)
            tls.write_bundle(settings, self._layout.certificate)


def taken_by(port: int) -> str:
    """Who holds a port, for people."""
    found = port_holder(port)
    return f"it is held by {found}" if found else "it can't be bound"


def _running(layout: Layout) -> Identity | None:
    """The newest HAProxy of this service that runs."""
    with contextlib.suppress(OSError, ValueError):
        pid, ticks = map(int, layout.haproxy_pid_file.read_text().split())
        if procfs.is_alive(Identity(pid, ticks)):
            return Identity(pid, ticks)
    marked = procfs.marked(layout.service_dir)
    found = [procfs.identity(pid) for pid, env in marked.items() if BALANCER_MARK in env]
    return max(filter(None, found), key=lambda one: one.start_ticks, default=None)


def _health_paths(layout: Layout) -> dict[str, str]:
    try:
        lines = layout.health_map.read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _last_line(layout: Layout) -> str:
    try:
        with layout.haproxy_log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
            lines = log.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
