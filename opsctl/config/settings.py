"""Every key of opsctl.yaml as a frozen dataclass: name, type, default, limits and meaning.

Validation, `config schema`, `config docs` and the reference opsctl.yaml are all made from these.
Maps and lists are mappings and tuples. Durations are seconds (`_s`), shares are percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.config.building import Build as Build
from opsctl.config.compose import Compose as Compose
from opsctl.config.containers import Docker as Docker
from opsctl.config.containers import Npus as Npus
from opsctl.config.fields import Section, key, section
from opsctl.config.kubernetes import Autoscaling as Autoscaling
from opsctl.config.kubernetes import Gateway as Gateway
from opsctl.config.kubernetes import Kubernetes as Kubernetes
from opsctl.config.kubernetes import Npu as Npu
from opsctl.config.measuring import Bench as Bench
from opsctl.config.measuring import Gate as Gate
from opsctl.config.measuring import Prometheus as Prometheus
from opsctl.config.measuring import PrometheusQuery as PrometheusQuery
from opsctl.config.secret_source import SecretSource as SecretSource
from opsctl.config.tls import Tls as Tls


@section
class App(Section):
    """What one replica runs."""

    directory: str = key(doc="Folder of the application, copied into each release.", example="app")
    command: tuple[str, ...] = key(
        doc="Command of one replica; {python} {host} {port} {health_port} {model} {release}"
        " {replica} are filled in.",
        example=("{python}", "main.py", "--port", "{port}"),
    )
    image: str | None = key(
        None, doc="Image of a replica on docker and kubernetes: NAME:TAG or NAME@sha256:DIGEST."
    )
    build: tuple[str, ...] = key((), doc="Command run once in the release's copy of the folder.")
    build_timeout_s: float = key(600.0, doc="Time limit of `build`.", low=1)
    python: str | None = key(None, doc="Python for {python}; default: the one that runs opsctl.")
    exclude: tuple[str, ...] = key(
        ("__pycache__", "*.pyc", ".git", ".venv", ".opsctl"),
        doc="Patterns of names that are not copied.",
    )
    env: Mapping[str, str] = key(factory=dict, doc="Environment variables of a replica.")
    secrets: Mapping[str, SecretSource] = key(
        factory=dict, doc="Secret environment variables, by where their values come from."
    )
    stop_timeout_s: float = key(30.0, doc="SIGTERM to SIGKILL, after the drain.", low=0.1)


@section
class Model(Section):
    """The model artefact, part of the release by its hash."""

    path: str = key(doc="File or folder of the model; links are resolved first.", example="model")
    name: str = key("model", doc="Name of the model in URLs.")


@section
class Resources(Section):
    """Limits of one replica."""

    memory_mb: int | None = key(None, doc="Memory limit; over it the replica is killed.", low=16)
    cpus: tuple[int, ...] = key((), doc="CPUs that replicas may use; empty: all.", low=0)


@section
class Health(Section):
    """When a replica counts as healthy."""

    path: str = key("/health/ready", doc="Readiness path on the health port.")
    live_path: str = key("/health/live", doc="Liveness path on the health port.")
    tries: int = key(30, doc="Probes before giving up on a start.", low=1)
    interval_s: float = key(2.0, doc="Time between probes.", low=0.02)
    timeout_s: float = key(2.0, doc="Time limit of one probe.", low=0.05)
    streak: int = key(3, doc="Successes in a row that count as healthy.", low=1)
    max_restarts: int = key(3, doc="Crashes within a minute that count as a crash loop.", low=1)


@section
class JsonExpectation(Section):
    """One value inside a JSON answer."""

    path: str = key(doc="Where: dotted, list items by number.", example="predictions.0.score")
    equals: Any = key(None, doc="The value expected (numbers within `tolerance`).")
    tolerance: float = key(0.0, doc="Largest absolute difference of numbers.", low=0)
    shape: tuple[int, ...] | None = key(None, doc="Lengths of nested lists expected.", low=0)


@section
class SmokeTest(Section):
    """One request with the answer it must get, or one command that must succeed."""

    name: str = key(doc="Name in reports.", example="scores a normal window")
    method: str = key("GET", doc="HTTP method.", choices=("GET", "POST", "PUT", "DELETE"))
    path: str | None = key(None, doc="Path on the service port.", example="/v1/models/m:predict")
    headers: Mapping[str, str] = key(factory=dict, doc="Request headers.")
    body: Any = key(None, doc="JSON body.")
    body_file: str | None = key(None, doc="File with the body, relative to opsctl.yaml.")
    status: int = key(200, doc="Expected status.", low=100, high=599)
    json: tuple[JsonExpectation, ...] = key((), doc="Expected values in the JSON answer.")
    run: tuple[str, ...] = key(
        (), doc="Command run in the candidate's environment instead of a request."
    )
    timeout_s: float = key(10.0, doc="Time limit.", low=0.05)


@section
class CanaryStage(Section):
    """One stage of a canary."""

    weight: int = key(doc="Percent of user traffic.", low=1, high=99, example=5)
    hold_s: float = key(10.0, doc="How long live limits are watched at this weight.", low=0)
    approval: bool = key(False, doc="Wait for `opsctl approve` before this stage.")


@section
class Strategy(Section):
    """How traffic goes from the old release to the new one."""

    type: str = key(
        "canary",
        doc="canary (by weight), blue-green (all at once), rolling (replica by replica), "
        "recreate (no room for two).",
        choices=("canary", "blue-green", "rolling", "recreate"),
    )
    stages: tuple[CanaryStage, ...] = key(
        (CanaryStage(5), CanaryStage(25), CanaryStage(50)), doc="Stages of a canary."
    )
    promote_approval: bool = key(False, doc="Wait for `opsctl approve` before full traffic.")
    promote_hold_s: float = key(5.0, doc="Live limits watched after full traffic.", low=0)
    max_error_rate: float = key(
        0.01, doc="User-visible errors of the candidate that stop a rollout.", low=0, high=1
    )
    min_requests: int = key(20, doc="User requests before `max_error_rate` judges.", low=1)
    drain_timeout_s: float = key(30.0, doc="Longest wait for connections to finish.", low=0)
    rollback_window_s: float = key(
        3600.0, doc="How long the old release stays warm after a deploy.", low=0
    )
    allow_downtime: bool = key(
        False, doc="Lets `recreate` stop the only replica before the new one runs."
    )
    step_timeout_s: float = key(900.0, doc="Time limit of each step.", low=1)


@section
class Hook(Section):
    """A command around a step; the context is in OPSCTL_* variables."""

    when: str = key(doc="before: a failure stops the rollout.", choices=("before", "after"))
    run: tuple[str, ...] = key(doc="Command.", example=("./notify.sh",))
    step: str = key(
        "deploy",
        doc="Kind of step, or `deploy` for the whole rollout.",
        choices=(
            "deploy", "preflight", "build", "start", "smoke", "gate", "shift", "approval",
            "promote", "drain", "rollback",
        ),
    )  # fmt: skip
    timeout_s: float = key(60.0, doc="Time limit.", low=0.1)


@section
class Notification(Section):
    """A webhook that gets a JSON POST for events of a rollout."""

    url: str = key(doc="Where to POST.", example="https://chat.example/hooks/1")
    events: tuple[str, ...] = key(
        ("finished", "failed", "waiting"),
        doc="Events that are told; `started` comes once a rollout, before its first step.",
        choices=("started", "finished", "failed", "waiting"),
    )
    secret: SecretSource | None = key(
        None, doc="Key of the HMAC-SHA256 signature in X-Opsctl-Signature."
    )
    tries: int = key(3, doc="Tries, with growing pauses.", low=1)
    timeout_s: float = key(5.0, doc="Time limit of a try.", low=0.1)


@section
class Retention(Section):
    """What is kept."""

    releases: int = key(
        5, doc="Releases kept besides those that serve or can be gone back to.", low=0
    )
    reports: int = key(50, doc="Rollouts whose reports are kept.", low=1)
    min_free_mb: int = key(200, doc="Free disk space that a deploy needs.", low=0)


@section
class Local(Section):
    """Target `local`: processes of this machine."""

    host: str = key("127.0.0.1", doc="Address of the front door.")
    port: int | str = key(
        8501,
        doc="Port of the front door, or `auto` for the first free one from 8501 on.",
        low=1,
        high=65535,
        choices=("auto",),
    )
    state_dir: str = key(".opsctl", doc="Folder of all state, relative to opsctl.yaml.")
    replica_ports: tuple[int, int] = key(
        (20000, 29999), doc="Range of the replicas' ports.", low=1024, high=65535
    )
    haproxy: str = key("haproxy", doc="HAProxy's binary (2.6 or newer).")
    tls: Tls | None = key(None, doc="Certificate files of the front door.")
    request_timeout_s: float = key(60.0, doc="Longest time a replica may take to answer.", low=1)
    retry_requests: bool = key(
        True, doc="Whether the balancer sends a request again when a replica died without answer."
    )
    log_max_mb: int = key(20, doc="Size at which a log file is rotated.", low=1)
    log_files: int = key(5, doc="Rotated log files kept.", low=1)
    start_at_boot: bool = key(False, doc="Start what served when the machine starts.")


@section
class Service(Section):
    """One service."""

    app: App = key(doc="What a replica runs.")
    model: Model | None = key(None, doc="Model artefact.")
    build: Build | None = key(None, doc="The service's image.")
    replicas: int = key(1, doc="Replicas.", low=1, high=64)
    resources: Resources = key(factory=Resources, doc="Limits of one replica.")
    health: Health = key(factory=Health, doc="When a replica is healthy.")
    smoke: tuple[SmokeTest, ...] = key((), doc="Smoke tests of a candidate.")
    bench: Bench | None = key(None, doc="Load of the benchmark; without it there is no gate.")
    gate: Gate = key(factory=Gate, doc="Judgement of the benchmark.")
    strategy: Strategy = key(factory=Strategy, doc="How traffic moves.")
    hooks: tuple[Hook, ...] = key((), doc="Commands around steps.")
    notifications: tuple[Notification, ...] = key((), doc="Webhooks.")
    depends_on: tuple[str, ...] = key(
        (), doc="Services that a deploy of several services deploys before this one."
    )
    retention: Retention = key(factory=Retention, doc="What is kept.")
    local: Local = key(factory=Local, doc="Settings of target `local`.")
    kubernetes: Kubernetes = key(factory=Kubernetes, doc="Settings of Kubernetes.")
    compose: Compose = key(factory=Compose, doc="What `opsctl render compose` writes.")
    docker: Docker = key(factory=Docker, doc="Settings of target `docker`.")


@section
class Environment(Section):
    """A named target with overrides."""

    target: str = key("local", doc="Where it runs.", choices=("docker", "kubernetes", "local"))
    soak_s: float = key(
        0.0,
        doc="How long `deploy -e A,B` watches what serves in A before B begins.",
        low=0.0,
        high=604800.0,
    )
    overrides: Mapping[str, Any] = key(
        factory=dict,
        doc="Keys of services to replace, by service name (`*` for all).",
        example={"*": {"replicas": 2}},
    )


@section
class Config(Section):
    """The whole of opsctl.yaml."""

    services: Mapping[str, Service] = key(doc="Services by name.")
    version: int = key(1, doc="Format of this file.", low=1, high=1)
    environments: Mapping[str, Environment] = key(
        factory=lambda: {"production": Environment()},
        doc="Environments by name; the default one is `production`.",
    )


@dataclass(frozen=True)
class Project:
    """A loaded opsctl.yaml with one service of one environment chosen."""

    path: Path
    """The file, absolute."""
    config: Config
    environment: str
    service_name: str
    service: Service
    """With the environment's overrides applied."""
    target: str

    @property
    def root(self) -> Path:
        """Folder that relative paths of the file start from."""
        return self.path.parent

    @property
    def service_dir(self) -> Path:
        """Folder of this service's state on target `local`."""
        return self.root / self.service.local.state_dir / self.environment / self.service_name
