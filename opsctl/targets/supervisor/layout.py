"""Where everything of a service stands below its state directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOCKET_NAME = "supervisor.sock"
ADMIN_SOCKET_NAME = "admin.sock"
SLOT_MAP_NAME = "slots.map"
RECORD_SOCKET_NAME = "record.sock"
"""Where HAProxy tells of requests while they are recorded."""

HELD_FOLDERS = ("run", "logs", "releases", "models", "secrets")
"""What the target holds and `down` removes; journal and reports stay as the record of it."""


@dataclass(frozen=True)
class Layout:
    """Paths of one service."""

    service_dir: Path

    @property
    def run(self) -> Path:
        return self.service_dir / "run"

    @property
    def logs(self) -> Path:
        return self.service_dir / "logs"

    @property
    def releases(self) -> Path:
        return self.service_dir / "releases"

    @property
    def inbox(self) -> Path:
        return self.service_dir / "inbox"

    @property
    def state_file(self) -> Path:
        return self.run / "supervisor.json"

    @property
    def lock_file(self) -> Path:
        return self.run / "supervisor.lock"

    @property
    def pid_file(self) -> Path:
        return self.run / "supervisor.pid"

    @property
    def settings_file(self) -> Path:
        return self.run / "settings.json"

    @property
    def lease_file(self) -> Path:
        return self.run / "lease"

    @property
    def counters_file(self) -> Path:
        return self.run / "counters.json"

    @property
    def haproxy_config(self) -> Path:
        return self.run / "haproxy.cfg"

    @property
    def slot_map(self) -> Path:
        return self.run / SLOT_MAP_NAME

    @property
    def certificate(self) -> Path:
        return self.run / "front.pem"

    @property
    def haproxy_pid_file(self) -> Path:
        return self.run / "haproxy.pid"

    @property
    def haproxy_log(self) -> Path:
        return self.logs / "haproxy.log"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def events_file(self) -> Path:
        return self.logs / "events.jsonl"

    def release_dir(self, release: str) -> Path:
        return self.service_dir / "releases" / release

    def release_file(self, release: str) -> Path:
        return self.release_dir(release) / "release.json"

    def secrets_file(self, release: str) -> Path:
        return self.service_dir / "secrets" / f"{release}.json"

    def replica_log(self, name: str) -> Path:
        return self.logs / f"{name}.log"
