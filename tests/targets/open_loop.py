"""An independent open-loop client: requests at fixed times, whatever the answers do.

Run in a process of its own: `python open_loop.py HOST PORT RATE SECONDS STOP_FILE`; prints one JSON
object: {"sent", "connections", "failed": [[seconds, text], …], "by_release": {…}, "last":
{release: seconds}, "p99_ms", "max_ms"}. It ends early when STOP_FILE appears. A failure is whatever
is not a whole 200 answer; nothing is ever sent again.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0
IDLE_MAX_S = 20.0
"""Well below the 60 s after which the front door closes an idle connection."""

BODY = json.dumps({"instances": [[0.5] * 64]}).encode()
REQUEST = (
    b"POST /v1/models/m:predict HTTP/1.1\r\nHost: svc\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


class Client:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.idle: deque[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self.began = time.monotonic()
        self.connections = 0
        self.failed: list[tuple[float, str]] = []
        self.by_release: dict[str, int] = {}
        self.last: dict[str, float] = {}
        self.latencies: list[float] = []

    async def one(self, intended: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._one(intended)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is a failed request)
            text = f"{type(error).__name__}: {error}"
            self.failed.append((time.monotonic() - self.began, text))

    async def _one(self, intended: float) -> None:
        reader, writer = await self._connected()
        began = time.time()
        writer.write(REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(headers["content-length"]))
        status = int(head.split(" ", 2)[1])
        if status != 200:
            raise RuntimeError(f"status {status}")
        release = headers["x-opsctl-release"]
        if json.loads(body)["release"] != release:
            raise RuntimeError("the header names another release than the answer")
        self.by_release[release] = self.by_release.get(release, 0) + 1
        # When the last request that a release answered was sent: the end of its traffic.
        self.last[release] = max(began, self.last.get(release, 0.0))
        self.latencies.append(time.monotonic() - intended)
        if headers.get("connection") == "close":
            writer.close()
        else:
            self.idle.append((time.monotonic(), reader, writer))

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection used last; one that is idle for long may be closed just now."""
        if self.idle:
            since, reader, writer = self.idle.pop()
            if time.monotonic() - since < IDLE_MAX_S:
                return reader, writer
            writer.close()
            for _, _, older in self.idle:
                older.close()
            self.idle.clear()
        self.connections += 1
        return await asyncio.open_connection(self.host, self.port)


async def run(host: str, port: int, rate: float, seconds: float, stop: Path) -> dict[str, Any]:
    client = Client(host, port)
    tasks: set[asyncio.Task[None]] = set()
    sent = 0
    while sent < rate * seconds and not (sent % 20 == 0 and stop.exists()):
        intended = client.began + sent / rate
        await asyncio.sleep(max(0.0, intended - time.monotonic()))
        task = asyncio.create_task(client.one(intended))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        sent += 1
    await asyncio.gather(*tasks)
    for _, _, writer in client.idle:
        writer.close()
    latencies = sorted(client.latencies)
    return {
        "sent": sent,
        "connections": client.connections,
        "failed": client.failed,
        "by_release": client.by_release,
        "last": client.last,
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 1) if latencies else None,
        "max_ms": round(1000 * latencies[-1], 1) if latencies else None,
    }


if __name__ == "__main__":
    host, port, rate, seconds, stop = sys.argv[1:]
    result = asyncio.run(run(host, int(port), float(rate), float(seconds), Path(stop)))
    print(json.dumps(result))
