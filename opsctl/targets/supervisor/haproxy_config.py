"""HAProxy's configuration file, rendered from manifests/haproxy.cfg.j2."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from opsctl.resources import template_path
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME, RECORD_SOCKET_NAME
from opsctl.targets.supervisor.run_settings import RunSettings

BUFSIZE_BYTES = 131_072
"""Room for a batch body: with HAProxy's 16 KiB, 52 of 27 KB requests failed when a server died."""

MAXCONN = 4096
THREADS_MAX = 4
CHECK_S_MIN, CHECK_S_MAX = 0.5, 5.0
"""Bounds on HAProxy's own check interval, which follows health.interval_s."""


@dataclass(frozen=True)
class Server:
    """One replica as HAProxy knows it. `maint`: out of rotation, even for sticky clients."""

    name: str
    port: int
    health_port: int
    health_path: str
    check_s: float = 2.0
    host: str = "127.0.0.1"
    weight: int = 0
    maint: bool = False

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]

    @property
    def options(self) -> str:
        """Keywords that stand alike in the file and in `add server`."""
        inter_ms = round(1000 * min(max(self.check_s, CHECK_S_MIN), CHECK_S_MAX))
        return (
            f"check port {self.health_port} inter {inter_ms}ms fastinter {inter_ms // 2}ms"
            f" downinter 250ms fall 2 rise 1 pool-purge-delay 1s"
        )


def render(
    settings: RunSettings, port: int, servers: Iterable[Server], state: Mapping[str, Any]
) -> str:
    """The whole file. `state` is kept in a comment: what to rebuild from when all else is lost."""
    frame = frame_digest(settings, port)
    return _render(settings, port, tuple(servers), frame, json.dumps(state))


def frame_digest(settings: RunSettings, port: int) -> str:
    """Names all of the file but its servers: another digest needs a reload."""
    return _digest(_bare(settings, port))


@functools.lru_cache(maxsize=4)
def _bare(settings: RunSettings, port: int) -> str:
    """The file without servers. Asked for at each step, so it is kept."""
    return _render(settings, port, (), "", "")


@functools.lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    """Read once: an upgrade under a running supervisor must not mix two versions."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, cache_size=1
    )
    return environment.from_string(template_path("haproxy.cfg.j2").read_text())


def read_comment(path: Path, word: str) -> str:
    """The value of a `# word value` line of a written file, "" when there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    start = f"# {word} "
    return next((line[len(start) :] for line in lines if line.startswith(start)), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _render(
    settings: RunSettings, port: int, servers: tuple[Server, ...], frame: str, state: str
) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return _template().render(
        frame=frame,
        state=state,
        admin_socket=ADMIN_SOCKET_NAME,
        record_socket=RECORD_SOCKET_NAME,
        threads=min(os.cpu_count() or 1, THREADS_MAX),
        maxconn=_maxconn(),
        bufsize=BUFSIZE_BYTES,
        address=f"{host}:{port}",
        tls=settings.tls,
        certificate="front.pem",
        health_map="health.map",
        request_timeout_s=round(settings.request_timeout_s),
        retry_requests=settings.retry_requests,
        servers=servers,
    )


def _maxconn() -> int:
    """As many connections as the limit on open files allows (two files each, some for itself)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = MAXCONN if hard == resource.RLIM_INFINITY else (hard - 200) // 2
    return max(100, min(MAXCONN, room))
