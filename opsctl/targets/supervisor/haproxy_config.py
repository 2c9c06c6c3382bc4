"""HAProxy's configuration file, rendered from manifests/haproxy.cfg.j2."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from opsctl.resources import template_path
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME, RECORD_SOCKET_NAME, SLOT_MAP_NAME
from opsctl.targets.supervisor.run_settings import RunSettings

BUFSIZE_BYTES = 131_072
"""Room for a batch body: with HAProxy's 16 KiB, 52 of 27 KB requests failed when a server died."""

MAXCONN = 4096
THREADS_MAX = 4
HOST = "127.0.0.1"
NOBODY = "-"
"""Stands in the map for the replica of a free slot."""

FREE_PORT = 1
"""Of a free slot: privileged, so no replica ever has it; a slot in maintenance is not called."""


@dataclass(frozen=True)
class Server:
    """One replica as HAProxy knows it. `maint`: out of rotation, even for sticky clients."""

    name: str
    port: int
    health_port: int
    health_path: str
    host: str = HOST
    weight: int = 0
    maint: bool = False

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]


FREE_SLOT = Server(NOBODY, FREE_PORT, FREE_PORT, "", maint=True)


def render(
    settings: RunSettings, port: int, slots: Mapping[str, Server], state: Mapping[str, Any]
) -> str:
    """The whole file. `state` is kept in a comment: what to rebuild from when all else is lost."""
    frame = frame_digest(settings, port)
    return _render(settings, port, slots, frame, json.dumps(state))


def render_map(slots: Mapping[str, Server]) -> str:
    """The map that goes with the file: replica and health path of each slot."""
    return "".join(f"{slot} {s.name}:{s.health_path}\n" for slot, s in slots.items())


def frame_digest(settings: RunSettings, port: int) -> str:
    """Names all of the file but its slots: another digest needs a reload."""
    return _digest(_bare(settings, port))


@functools.lru_cache(maxsize=4)
def _bare(settings: RunSettings, port: int) -> str:
    """The file without slots. Asked for at each step, so it is kept."""
    return _render(settings, port, {}, "", "")


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


def read_note(path: Path) -> dict[str, Any]:
    """What a written file keeps as `state`; empty when it can't be read."""
    try:
        note = json.loads(read_comment(path, "state"))
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _render(
    settings: RunSettings, port: int, slots: Mapping[str, Server], frame: str, state: str
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
        slot_map=SLOT_MAP_NAME,
        request_timeout_s=round(settings.request_timeout_s),
        retry_requests=settings.retry_requests,
        slots=slots,
    )


def _maxconn() -> int:
    """As many connections as the limit on open files allows (two files each, some for itself)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = MAXCONN if hard == resource.RLIM_INFINITY else (hard - 200) // 2
    return max(100, min(MAXCONN, room))
