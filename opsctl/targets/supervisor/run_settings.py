"""The settings of opsctl.yaml that the supervisor works by, as it keeps them in settings.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsctl.config.settings import Project


@dataclass(frozen=True)
class RunSettings:
    """What one service's supervisor and balancer are told. `port` 0 means `auto`."""

    service: str
    environment: str
    host: str = "127.0.0.1"
    port: int = 0
    haproxy: str = "haproxy"
    replica_ports: tuple[int, int] = (20000, 29999)
    tls_certificate: str = ""
    tls_private_key: str = ""
    request_timeout_s: float = 60.0
    retry_requests: bool = True
    drain_timeout_s: float = 30.0
    log_max_mb: int = 20
    log_files: int = 5
    section: str = "local"
    """Where in opsctl.yaml they stand."""

    @property
    def tls(self) -> bool:
        return bool(self.tls_certificate)

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "replica_ports": list(self.replica_ports)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSettings:
        """Keys of another version are dropped; missing ones get their default."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        low, high = values.get("replica_ports", (20000, 29999))
        return cls(**{**values, "replica_ports": (low, high)})

    @classmethod
    def of(cls, project: Project) -> RunSettings:
        """The settings of a loaded opsctl.yaml, its relative paths made absolute."""
        local = project.service.local
        tls = local.tls
        return cls(
            service=project.service_name,
            environment=project.environment,
            host=local.host,
            port=0 if local.port == "auto" else int(local.port),
            haproxy=local.haproxy,
            replica_ports=local.replica_ports,
            tls_certificate=str(project.root / tls.certificate) if tls else "",
            tls_private_key=str(project.root / tls.private_key) if tls else "",
            request_timeout_s=local.request_timeout_s,
            retry_requests=local.retry_requests,
            drain_timeout_s=project.service.strategy.drain_timeout_s,
            log_max_mb=local.log_max_mb,
            log_files=local.log_files,
        )


def reachable(host: str) -> str:
    """The address under which this machine itself reaches a listening address."""
    return {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
