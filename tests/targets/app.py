"""A tiny service for these tests: standard library only, up in less than 0.1 s.

Environment: APP_START (seconds before it listens), APP_EXIT (exit code at once), APP_PORT and
APP_HEALTH_PORT (instead of OPSCTL_*), APP_IGNORE_TERM, APP_DELAY (seconds an answer takes),
APP_DIE_AFTER (seconds, then exit code 9), APP_FAIL_PERCENT (5xx answers).
Control at run time: POST /control with JSON {"health": status, "live": status, "grow_mb": n,
"exit": code, "fork_mb": n, "fade": code}. "fade" ends its sockets at once and itself 0.1 s later.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

state = {"health": 200, "live": 200, "served": 0, "asked": 0, "failed": 0}
kept: list[bytearray] = []
DELAY_S = float(os.environ.get("APP_DELAY", "0"))
FAIL_PERCENT = int(os.environ.get("APP_FAIL_PERCENT", "0"))


async def answer(method: str, path: str, body: bytes) -> tuple[int, object]:
    if path == "/health/ready":
        return state["health"], {}
    if path == "/health/live":
        return state["live"], {}
    if path == "/metrics":
        return 200, (
            f"inference_requests_total {state['asked']}\ninference_errors_total {state['failed']}\n"
        )
    if path == "/control":
        return control(json.loads(body))
    state["served"] += 1
    state["asked"] += method == "POST"  # as a service of models counts predictions only
    delay = float(path.removeprefix("/slow/")) if path.startswith("/slow/") else DELAY_S
    if delay:
        await asyncio.sleep(delay)
    if state["served"] % 100 < FAIL_PERCENT:
        state["failed"] += method == "POST"
        return 500, {"error": "on purpose"}
    return 200, {
        "release": os.environ["OPSCTL_RELEASE"],
        "replica": os.environ["OPSCTL_REPLICA"],
        "pid": os.getpid(),
        "bytes": len(body),
        "method": method,
        "env": {k: v for k, v in os.environ.items() if k.startswith(("OPSCTL_", "APP_"))}
        if path == "/env"
        else {},
    }


def control(order: dict[str, int]) -> tuple[int, object]:
    state.update({name: order[name] for name in ("health", "live") if name in order})
    if "grow_mb" in order:
        kept.append(bytearray(os.urandom(4096) * (order["grow_mb"] * 256)))
    if "fork_mb" in order:
        code = f"import os, time; x = os.urandom({order['fork_mb']} << 20); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", code])
    if "exit" in order:
        print("last words", flush=True)
        os._exit(order["exit"])
    if "fade" in order:
        for server in servers:
            server.close()
        for connection in list(open_connections):
            connection.transport.abort()
        asyncio.get_running_loop().call_later(0.1, os._exit, order["fade"])
    return 200, {}


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        open_connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        open_connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.task is None or self.task.done():
            self.task = asyncio.ensure_future(self.serve())

    async def serve(self) -> None:
        while b"\r\n\r\n" in self.data:
            head, _, rest = self.data.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self.data = rest[length:]
            method, path, _ = first.split(" ")
            status, value = await answer(method, path, rest[:length])
            text = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            close = stopping or headers.get("connection") == "close"
            self.transport.write(
                b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
                % (status, len(text), b"Connection: close\r\n" if close else b"", text)
            )
            if close:
                self.transport.close()


open_connections: set[Connection] = set()
servers: list[asyncio.Server] = []
stopping = False


async def main() -> None:
    global stopping
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    port = int(os.environ.get("APP_PORT", os.environ["OPSCTL_PORT"]))
    health_port = int(os.environ.get("APP_HEALTH_PORT", os.environ["OPSCTL_HEALTH_PORT"]))
    host = os.environ.get("OPSCTL_HOST", "127.0.0.1")
    servers.extend([await loop.create_server(Connection, host, p) for p in {port, health_port}])
    print(f"listening on {port} and {health_port}", flush=True)
    if "APP_IGNORE_TERM" in os.environ:
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
    else:
        loop.add_signal_handler(signal.SIGTERM, ended.set)
    if "APP_DIE_AFTER" in os.environ:
        loop.call_later(float(os.environ["APP_DIE_AFTER"]), os._exit, 9)
    await ended.wait()
    stopping = True
    for server in servers:
        server.close()
    while any(c.task and not c.task.done() for c in open_connections):
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    if "APP_EXIT" in os.environ:
        print("cannot load the model", file=sys.stderr)
        sys.exit(int(os.environ["APP_EXIT"]))
    time.sleep(float(os.environ.get("APP_START", "0")))
    asyncio.run(main())
