"""One HTTP GET of a health path, without a library: small, bounded, and it never raises."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeResult:
    """Outcome of a probe. `status` 0: no answer. `reason` is empty for success."""

    status: int
    reason: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


async def get(host: str, port: int, path: str, timeout_s: float) -> ProbeResult:
    """GET http://host:port/path; 2xx is success."""
    where = f"GET {path} on {host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            status = await _status(host, port, path)
    except TimeoutError:
        return ProbeResult(0, f"{where}: no answer within {timeout_s:g} s")
    except OSError as error:
        return ProbeResult(0, f"{where}: {_plainly(error)}")
    except ValueError:
        return ProbeResult(0, f"{where}: the answer is not HTTP")
    return ProbeResult(status, "" if 200 <= status < 300 else f"{where} answered {status}")


def _plainly(error: OSError) -> str:
    """`connection refused` rather than asyncio's own sentence."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


async def _status(host: str, port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: opsctl\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        line = await reader.readline()
        version, _, rest = line.decode("latin-1").partition(" ")
        if not version.startswith("HTTP/"):
            raise ValueError(line)
        # The rest is read, so that the application sees an orderly end and not a reset.
        while await reader.read(65536):
            pass
        return int(rest[:3])
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
