"""A balancer in front of replicas of this very process, and users before it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.balancer import Balancer
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.haproxy_process import HaproxyProcess
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.run_settings import RunSettings
from opsctl.targets.supervisor.traffic import TrafficLedger
from opsctl.targets.supervisor.watched import WatchedProcess

RATE = int(os.environ.get("OPSCTL_SLOT_RATE", "100"))
"""Requests a second. Replicas and users share the CPUs: a slow machine can't do many more."""
T = TypeVar("T")


class App:
    """A replica that answers with its release, and ends as a killed process does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hold = asyncio.Event()
        """While it is clear, requests to /hold wait."""
        self.connections: set[asyncio.StreamWriter] = set()
        self.answered = 0
        """Requests of users; HAProxy's own checks are none."""
        self.server: asyncio.Server | None = None
        self.port = 0

    async def begin(self, port: int = 0) -> App:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def end(self) -> None:
        if self.server is not None:
            self.server.close()
        for writer in list(self.connections):
            writer.transport.abort()

    def as_server(self, weight: int = 0, *, maint: bool = False) -> Server:
        made = Server(self.name, self.port, self.port, "/health/ready")
        return dataclasses.replace(made, weight=weight, maint=maint)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(
                    line.lower().split(b": ", 1) for line in head.split(b"\r\n") if b": " in line
                )
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                if b" /hold " in head:
                    await self.hold.wait()
                release, _, _ = self.name.partition("-")
                body = json.dumps({"release": release, "replica": self.name}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
                self.answered += head.startswith(b"POST")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()


class Front:
    """A balancer on a free port, in the working directory of a supervisor."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder)
        self.layout.run.mkdir(parents=True)
        self.layout.logs.mkdir()
        os.chdir(self.layout.run)
        self.told: list[str] = []
        self.silences = 0
        self.apps: list[App] = []
        self.balancers: list[WatchedProcess] = []
        self.ledger = TrafficLedger()
        self.settings = RunSettings("svc", "test", port=free_port(), haproxy="haproxy")
        self.balancer = self.made()

    def made(self) -> Balancer:
        """What the next supervisor makes."""
        tell = lambda release, text: self.told.append(text)  # noqa: E731
        process = HaproxyProcess(self.layout, os.environ, tell, lambda: None)
        balancer = Balancer(self.layout, process, tell)
        balancer.counted = self.count
        return balancer

    def count(self, seen: runtime_api.Statistics) -> None:
        self.ledger.absorb(seen)

    def running(self) -> WatchedProcess:
        """The HAProxy of this moment."""
        process = self.balancer.process
        assert isinstance(process, HaproxyProcess) and process._process is not None
        return process._process

    def play(self, scene: Callable[[], Coroutine[Any, Any, T]], limit_s: float = 120.0) -> T:
        """Run a scene; nothing of it is left after it, however it ended."""

        async def whole() -> T:
            try:
                return await asyncio.wait_for(scene(), limit_s)
            finally:
                with contextlib.suppress(AssertionError):
                    self.balancers.append(self.running())
                for app in self.apps:
                    app.end()
                for process in self.balancers:
                    process.signal(signal.SIGTERM)
                    assert await process.wait(60)

        return asyncio.run(whole())

    def freeze(self) -> WatchedProcess:
        """Stop HAProxy with SIGSTOP, and wait until it stands still."""
        process = self.running()
        process.signal(signal.SIGSTOP)
        stat = Path(f"/proc/{process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        return process

    async def app(self, name: str, port: int = 0) -> App:
        """A replica that runs."""
        self.apps.append(App(name))
        return await self.apps[-1].begin(port)

    async def up(self, replicas: int = 1) -> None:
        await self.balancer.ensure_up(self.settings, self.settings.port, replicas)

    async def replace(self, old: App, new: App, others: list[App]) -> None:
        """Move all traffic of `old` to `new`, and end `old`."""
        rest = {app.name: app.as_server(1) for app in others}
        both = {old.name: old.as_server(1), new.name: new.as_server(0)}
        await self.put({**rest, **both})
        both = {old.name: old.as_server(0, maint=True), new.name: new.as_server(1)}
        await self.put({**rest, **both})
        await self.leave(old)

    async def put(self, servers: dict[str, Server]) -> None:
        """As the supervisor does: when HAProxy is silent for a moment it is tried again."""
        while True:
            try:
                return await self.balancer.put(servers)
            except TargetUnreachable:
                self.silences += 1

    async def leave(self, app: App) -> None:
        """What a removal does: drain, end the process, free the slot."""
        while app.name in self.balancer.servers:
            try:
                assert await self.balancer.remove(app.name, 60.0)
            except TargetUnreachable:
                self.silences += 1
        app.end()
        await self.balancer.vacate(app.name)

    async def more_answers(self, count: int = RATE // 4) -> None:
        """Wait until users have got so many more of them."""
        goal = sum(app.answered for app in self.apps) + count
        while sum(app.answered for app in self.apps) < goal:
            await asyncio.sleep(0.01)

    async def ask(self, path: str = "/") -> tuple[int, str, str]:
        """Status, release of the header, replica of the body; over a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.settings.port)
        try:
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
            body = await reader.readexactly(int(fields["content-length"]))
            if " 200 " not in head:
                return int(head.split()[1]), "", ""
            return 200, fields["x-opsctl-release"], json.loads(body)["replica"]
        finally:
            writer.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextlib.asynccontextmanager
async def users(front: Front, result: dict[str, Any]) -> AsyncIterator[None]:
    """An open-loop client while the block runs: keep-alive POSTs, none sent twice.

    It is at work when the block begins.
    """
    stop = front.layout.service_dir / "stop"
    stop.unlink(missing_ok=True)
    argv = [sys.executable, str(Path(__file__).with_name("open_loop.py")), "127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        *argv, str(front.settings.port), str(RATE), "3600", str(stop), stdout=subprocess.PIPE
    )
    try:
        await front.more_answers()
        yield
    finally:
        stop.touch()
        output, _ = await process.communicate()
    result.update(json.loads(output))


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
