"""Keys of opsctl.yaml about target `docker`."""

from __future__ import annotations

from opsctl.config.fields import Section, key, section
from opsctl.config.tls import Tls


@section
class Npus(Section):
    """Accelerators of replicas on target `docker`."""

    count: int = key(0, doc="NPUs of one replica.", low=0, high=64)
    devices: tuple[int, ...] = key(
        (), doc="NPUs that replicas may have, by number; empty: all that the host shows.", low=0
    )
    access: str = key(
        "auto",
        doc="How containers get at NPUs: `runtime` (the host's runtime `ascend`), `devices` (device"
        " nodes and driver mounts), `auto` (runtime where the host has it).",
        choices=("auto", "runtime", "devices"),
    )
    share: bool = key(False, doc="Whether two releases may use the same NPU.")
    driver_dir: str = key("/usr/local/Ascend/driver", doc="The driver's folder on the Docker host.")


@section
class Docker(Section):
    """Target `docker`: containers of one Docker host, which DOCKER_HOST or `context` names."""

    name: str | None = key(
        None, doc="The service's name on the Docker host; default: environment-service."
    )
    context: str | None = key(
        None, doc="Docker context to use; default: DOCKER_HOST, DOCKER_CONTEXT or the current one."
    )
    host: str = key("127.0.0.1", doc="Address of the front door on the Docker host.")
    port: int | str = key(
        8501,
        doc="Port of the front door, or `auto` for the first free one from 8501 on.",
        low=1,
        high=65535,
        choices=("auto",),
    )
    replica_port: int = key(8501, doc="{port} inside each container.", low=1, high=65535)
    health_port: int = key(
        8502,
        doc="{health_port} inside each container; as `replica_port`: its only port tells health.",
        low=1,
        high=65535,
    )
    python: str = key("python3", doc="{python} inside the image.")
    user: str = key(
        "auto",
        doc="User of replicas (`uid` or `uid:gid`), never root; `auto`: the image's own, or"
        " 10001:10001 where that is root.",
    )
    cpus_max: float | None = key(None, doc="CPU time of one replica, in CPUs.", low=0.01)
    pids_max: int = key(4096, doc="Processes and threads of one replica.", low=16)
    tmp_mb: int = key(64, doc="Size of a replica's /tmp, its only writable folder.", low=1)
    agent_image: str | None = key(
        None, doc="Image of opsctl's agent and balancer; default: built from `agent_base`."
    )
    agent_base: str = key(
        "debian:bookworm-slim", doc="Debian image that the agent's is built from, once a version."
    )
    tls: Tls | None = key(None, doc="Certificate files of the front door.")
    request_timeout_s: float = key(60.0, doc="Longest time a replica may take to answer.", low=1)
    retry_requests: bool = key(
        True, doc="Whether the balancer sends a request again when a replica died without answer."
    )
    log_max_mb: int = key(20, doc="Size at which a container's log is rotated.", low=1)
    log_files: int = key(5, doc="Rotated logs of a container that are kept.", low=1)
    npus: Npus = key(factory=Npus, doc="Accelerators of replicas.")
