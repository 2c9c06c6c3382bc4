"""The HAProxy process of a service: started, watched, handed over, ended."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from opsctl import shell
from opsctl.errors import TargetUnreachable
from opsctl.files import write_atomically
from opsctl.targets.supervisor import haproxy_binary, procfs, runtime_api
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME, Layout
from opsctl.targets.supervisor.log_tail import last_lines
from opsctl.targets.supervisor.procfs import Identity
from opsctl.targets.supervisor.runtime_api import Statistics
from opsctl.targets.supervisor.watched import WatchedProcess

BALANCER_MARK = "OPSCTL_BALANCER"
"""In the environment of HAProxy, beside the mark of the service."""

START_LIMIT_S = 5.0
POLL_S = 0.01
STOP_LIMIT_S = 2.0


class Haproxy(Protocol):
    """The HAProxy of one service, wherever it runs: at most one that counts."""

    @property
    def up(self) -> bool:
        """Whether it runs."""

    async def adopt(self) -> bool:
        """Take over the one that an earlier supervisor started; False when there is none."""

    async def revived(self) -> bool:
        """Whether somebody else started it again; it is taken over then, old file and all."""

    async def check(self, haproxy: str, config_name: str) -> None:
        """Have it read a configuration. Raises TargetUnreachable when it refuses."""

    async def start(self, haproxy: str, counted: Callable[[Statistics], None]) -> None:
        """Start it from its file, or have the running one hand over to a new one.

        `counted` gets the counters of the old one. Raises TargetUnreachable.
        """

    def kill(self, why: str) -> None:
        """End one that hangs; it is started again."""

    async def stop(self) -> None:
        """End it for good."""


class HaproxyProcess:
    """At most one HAProxy that counts; an older one may still be finishing its connections."""

    def __init__(
        self, layout: Layout, env: Mapping[str, str], tell: Tell, changed: Callable[[], None]
    ) -> None:
        self._layout = layout
        self._env = {
            **{name: env[name] for name in ("PATH", "HOME", "TZ") if name in env},
            procfs.SERVICE_MARK: str(layout.service_dir),
            BALANCER_MARK: "1",
        }
        self._tell = tell
        self._changed = changed
        self._process: WatchedProcess | None = None
        self._watches: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def identity(self) -> Identity | None:
        return self._process.identity if self._process else None

    async def adopt(self) -> bool:
        """Take over the HAProxy of an earlier supervisor; False when there is none."""
        found = _running(self._layout)
        self._process = WatchedProcess.adopt(found) if found else None
        if self._process is not None:
            self._watch(self._process)
        return self._process is not None

    async def revived(self) -> bool:
        """Nobody but the supervisor starts this one."""
        return False

    async def check(self, haproxy: str, config_name: str) -> None:
        """Have HAProxy read a configuration. Raises TargetUnreachable when it refuses."""
        argv = [haproxy_binary.find(haproxy) or haproxy, "-c", "-f", config_name]
        done = shell.run(argv, timeout_s=START_LIMIT_S, cwd=self._layout.run, env=self._env)
        if not done.ok:
            said = " | ".join(line for line in done.stderr.splitlines() if "[ALERT]" in line)
            raise TargetUnreachable("HAProxy refuses its new settings", why=said or done.why)

    async def start(self, haproxy: str, counted: Callable[[Statistics], None]) -> None:
        """Start HAProxy from its file; when one runs, the new one takes its sockets over.

        Returns when the new process answers; until then `counted` gets the counters of the old
        one, which nobody can ask afterwards. Raises TargetUnreachable.
        """
        old = self._process if self.up else None
        more = ["-x", ADMIN_SOCKET_NAME, "-sf", str(old.pid)] if old else []
        program = haproxy_binary.find(haproxy) or haproxy
        process = self._spawn([program, "-db", "-f", self._layout.haproxy_config.name, *more])
        await self._answers(process, counted)
        self._process = process
        with contextlib.suppress(OSError):
            identity = process.identity
            text = f"{identity.pid} {identity.start_ticks}\n"
            write_atomically(self._layout.haproxy_pid_file, text)
        self._watch(process)
        if old:
            self._tell("", f"load balancer reloaded with new settings: pid {old.pid} hands over"
                           f" to pid {process.pid}")  # fmt: skip
        else:
            self._tell("", f"load balancer started: pid {process.pid}")

    def kill(self, why: str) -> None:
        """End a HAProxy that hangs; whoever watches starts it again."""
        if self._process is not None:
            self._tell("", f"load balancer pid {self._process.pid} is killed: {why}")
            self._process.signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End it: no new connections at once, what is left is cut after a moment."""
        process, self._process = self._process, None
        if process is not None:
            process.signal(signal.SIGUSR1)
            if not await process.wait(STOP_LIMIT_S):
                process.signal(signal.SIGKILL)
                await process.wait(STOP_LIMIT_S)

    def _spawn(self, argv: Sequence[str]) -> WatchedProcess:
        layout = self._layout
        try:
            popen = shell.spawn(argv, cwd=layout.run, env=self._env, log=layout.haproxy_log)
        except OSError as error:
            raise TargetUnreachable(
                f"cannot start {argv[0]}",
                why=error.strerror or str(error),
                next_step="Install HAProxy 2.6 or newer, or set local.haproxy.",
            ) from error
        return WatchedProcess.of_child(popen)

    async def _answers(
        self, process: WatchedProcess, counted: Callable[[Statistics], None]
    ) -> None:
        """Wait until the new process itself answers on the admin socket."""
        limit = time.monotonic() + START_LIMIT_S
        while process.running and time.monotonic() < limit:
            with contextlib.suppress(TargetUnreachable):
                seen = await runtime_api.statistics()
                if seen.pid == process.pid:
                    return
                counted(seen)
            await asyncio.sleep(POLL_S)
        process.signal(signal.SIGKILL)
        raise TargetUnreachable(
            "HAProxy did not start",
            why=last_lines(self._layout.haproxy_log),
            next_step=f"See {self._layout.haproxy_log}",
        )

    def _watch(self, process: WatchedProcess) -> None:
        """Have the loop look at once when it ends."""

        async def until_end() -> None:
            await process.exited
            if process is self._process:
                self._tell("", f"load balancer pid {process.pid} ended; it is started again")
                self._changed()

        task = asyncio.create_task(until_end())
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)


def _running(layout: Layout) -> Identity | None:
    """The newest HAProxy of this service that runs."""
    with contextlib.suppress(OSError, ValueError):
        pid, ticks = map(int, layout.haproxy_pid_file.read_text().split())
        if procfs.is_alive(Identity(pid, ticks)):
            return Identity(pid, ticks)
    marked = procfs.marked(layout.service_dir)
    found = [procfs.identity(pid) for pid, env in marked.items() if BALANCER_MARK in env]
    return max(filter(None, found), key=lambda one: one.start_ticks, default=None)
