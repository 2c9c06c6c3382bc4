"""An open-loop HTTP client that watches the front door, apart from opsctl's own load code.

It sends a request at each due moment whatever became of the ones before, over keep-alive
connections, checks status and values of every answer, and writes one JSON file at its end
(SIGTERM, SIGINT or `--seconds`). Times are unix seconds. Only the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 10.0
BUCKET_S = 0.1
FAILURES_KEPT = 1000
USER_AGENT = "opsctl-test-user"
RELEASE_HEADER = "x-opsctl-release"
APP_HEADER = "x-light-release"


class Failed(Exception):
    """A request that got no right answer; `kind` is one word for counting."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True)
class Sample:
    """A request with the predictions that are right for it."""

    wire: bytes
    predictions: Any
    tolerance: float


@dataclass
class Seen:
    """What one release answered."""

    requests: int = 0
    first_sent: float = 0.0
    last_sent: float = 0.0


class Wire:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.alive = True

    async def ask(self, wire: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request; its status, headers and body. Raises Failed."""
        try:
            self.writer.write(wire)
            head = await self.reader.readuntil(b"\r\n\r\n")
            status_line, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        except asyncio.IncompleteReadError as error:
            self.close()
            kind = "cut" if error.partial else "eof"
            raise Failed(kind, f"closed after {len(error.partial)} bytes") from error
        except OSError as error:
            self.close()
            raise Failed("reset", repr(error)) from error
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(status_line.split(" ")[1]), headers, body

    def close(self) -> None:
        """Never to be used again."""
        self.alive = False
        self.writer.close()


class Client:
    """Requests at due moments, and what became of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        parts = urlsplit(options.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.samples = read_samples(Path(options.requests), parts.path, parts.netloc)
        self.random = random.Random(options.seed)
        self.idle: collections.deque[Wire] = collections.deque()
        self.sent = 0
        self.failures: list[dict[str, Any]] = []
        self.kinds: dict[str, int] = {}
        self.failed = 0
        self.latencies_ms: list[float] = []
        self.lag_ms_max = 0.0
        self.seen: dict[str, Seen] = {}
        self.buckets: dict[str, collections.Counter[int]] = {}
        self.stop = asyncio.Event()
        self.pending: set[asyncio.Task[None]] = set()

    async def run(self) -> dict[str, Any]:
        """Send until told to stop, wait for the last answers, and sum up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        # A connection each before the first due moment, so that its cost is no latency.
        self.idle.extend([await self.connect() for _ in range(self.options.connections)])
        started, clock = time.time(), time.monotonic()
        print("ready", flush=True)
        due = clock
        end = clock + self.options.seconds if self.options.seconds else float("inf")
        while due < end and not self.stop.is_set():
            await self.wait_until(due)
            if self.stop.is_set():
                break
            task = asyncio.create_task(self.send(self.samples[self.sent % len(self.samples)], due))
            self.sent += 1
            self.pending.add(task)
            task.add_done_callback(self.pending.discard)
            due += self.gap_s()
        if self.pending:
            await asyncio.wait(set(self.pending))
        for wire in self.idle:
            wire.close()
        return self.summary(started, time.time())

    def gap_s(self) -> float:
        """Seconds from one due moment to the next."""
        if self.options.arrivals == "poisson":
            return self.random.expovariate(self.options.rate)
        return float(1 / self.options.rate)

    async def wait_until(self, due: float) -> None:
        """Sleep till `due`, or till told to stop."""
        left = due - time.monotonic()
        if left > 0:
            try:
                await asyncio.wait_for(self.stop.wait(), left)
            except TimeoutError:
                return

    async def connect(self) -> Wire:
        """A new connection. Raises Failed."""
        try:
            return Wire(*await asyncio.open_connection(self.host, self.port))
        except OSError as error:
            raise Failed("connect", repr(error)) from error

    async def take(self) -> Wire:
        """The connection that is idle for longest, so that each stays in use; else a new one."""
        while self.idle:
            wire = self.idle.popleft()
            # Closed by the server while it was idle, which is its right and no failure.
            if not wire.reader.at_eof():
                return wire
            wire.close()
        return await self.connect()

    async def send(self, sample: Sample, due: float) -> None:
        """One request and its judgement."""
        sent_at = time.time()
        self.lag_ms_max = max(self.lag_ms_max, (time.monotonic() - due) * 1000)
        release = ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                wire = await self.take()
                try:
                    status, headers, body = await wire.ask(sample.wire)
                except asyncio.CancelledError:
                    wire.close()
                    raise
                if wire.alive:
                    self.idle.append(wire)
            release = headers.get(RELEASE_HEADER, "")
            self.note(release, sent_at)
            judge(sample, status, headers, body)
        except TimeoutError:
            self.fail(Failed("timeout", f"no answer in {TIMEOUT_S} s"), release, sent_at)
        except Failed as failure:
            self.fail(failure, release, sent_at)
        else:
            self.latencies_ms.append((time.monotonic() - due) * 1000)

    def note(self, release: str, sent_at: float) -> None:
        """Count an answer for the release that gave it."""
        seen = self.seen.setdefault(release, Seen(first_sent=sent_at))
        seen.requests += 1
        seen.last_sent = max(seen.last_sent, sent_at)
        counts = self.buckets.setdefault(release, collections.Counter())
        counts[int(sent_at / BUCKET_S)] += 1

    def fail(self, failure: Failed, release: str, sent_at: float) -> None:
        """Keep a failure."""
        self.failed += 1
        self.kinds[failure.kind] = self.kinds.get(failure.kind, 0) + 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(
                {
                    "sent": sent_at,
                    "ended": time.time(),
                    "kind": failure.kind,
                    "detail": failure.detail,
                    "release": release,
                }
            )

    def summary(self, started: float, ended: float) -> dict[str, Any]:
        """Everything, as the JSON file has it."""
        ordered = sorted(self.latencies_ms)
        return {
            "started": started,
            "ended": ended,
            "rate_per_s": self.options.rate,
            "sent": self.sent,
            "answered": len(ordered),
            "failed": self.failed,
            "failures": self.failures,
            "failed_by_kind": self.kinds,
            "lag_ms_max": self.lag_ms_max,
            "latency_ms": {
                name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))
            },
            "releases": {name: vars(seen) for name, seen in self.seen.items()},
            "bucket_s": BUCKET_S,
            "buckets": {name: sorted(counts.items()) for name, counts in self.buckets.items()},
        }


def judge(sample: Sample, status: int, headers: dict[str, str], body: bytes) -> None:
    """Raises Failed unless the answer is right in status, header and values."""
    if status != 200:
        raise Failed("status", f"{status} {body[:200].decode(errors='replace')}")
    release, app = headers.get(RELEASE_HEADER, ""), headers.get(APP_HEADER)
    if not release or (app and app != release):
        raise Failed("header", f"front door says {release!r}, the release itself {app!r}")
    try:
        predictions = json.loads(body)["predictions"]
    except (ValueError, KeyError) as error:
        raise Failed("body", repr(error)) from error
    if not is_right(predictions, sample.predictions, sample.tolerance):
        raise Failed("value", f"{predictions} instead of {sample.predictions}")


def is_right(got: Any, right: Any, tolerance: float) -> bool:
    """Whether lists have the same shape, maps at least the right keys, and numbers are near."""
    if isinstance(right, list):
        return (
            isinstance(got, list)
            and len(got) == len(right)
            and all(is_right(a, b, tolerance) for a, b in zip(got, right, strict=True))
        )
    if isinstance(right, dict):
        return isinstance(got, dict) and all(
            is_right(got.get(name), value, tolerance) for name, value in right.items()
        )
    if isinstance(right, bool):
        return got is right
    return isinstance(got, (int, float)) and abs(got - right) <= tolerance


def read_samples(path: Path, url_path: str, host: str) -> list[Sample]:
    """Requests in the order in which they are sent, over and over."""
    samples = []
    for item in json.loads(path.read_text()):
        body = json.dumps(item["body"]).encode()
        head = (
            f"POST {url_path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        wire = head.encode() + body
        samples.append(Sample(wire, item["predictions"], item.get("tolerance", 0.0)))
    return samples


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="open-loop client")
    parser.add_argument("--url", required=True)
    parser.add_argument(
        "--requests", required=True, help="JSON list of {body, predictions, tolerance}"
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--arrivals", choices=("constant", "poisson"), default="constant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0, help="0: until SIGTERM")
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args(argv)
    result = asyncio.run(Client(options).run())
    part = Path(options.out + ".part")
    part.write_text(json.dumps(result))
    part.replace(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
