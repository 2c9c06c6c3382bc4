"""Preflight of target `docker`: what stands against a state, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed, ConfigError, OpsctlError, PreflightRefused
from opsctl.model import DesiredState, Finding
from opsctl.release_store import never
from opsctl.targets.docker import image_source, npu_host, npus
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.names import NPUS, REPLICA_PART

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget

API_MIN = (1, 41)
"""Docker 20.10: the first engine whose statistics can be read at once."""

MIB = 1024 * 1024
PRIVILEGED_BELOW = 1024


def preflight(target: DockerTarget, state: DesiredState) -> list[Finding]:
    """All findings, the good ones too. Raises TargetUnreachable without an engine."""
    engine = target.engine
    with engine.told("cannot ask the engine"):
        info = engine.api.info()
    return [
        _engine(engine, info),
        _image(target),
        *_place(target),
        _memory(target, state, info),
        _cpus(target, state, info),
        *_npus(target, state),
        *_certificate(target),
    ]


def _engine(engine: Engine, info: Any) -> Finding:
    version = tuple(int(part) for part in engine.api.api_version.split("."))
    said = f"Docker {info['ServerVersion']} at {engine.address}, API {engine.api.api_version}"
    if version < API_MIN:
        return Finding("engine", "fail", said, "Install Docker 20.10 or newer.")
    if not info.get("MemoryLimit", True) or not info.get("PidsLimit", True):
        return Finding(
            "engine", "warn", f"{said}; its kernel can't limit memory or processes",
            "Turn the cgroup controllers memory and pids on.",
        )  # fmt: skip
    return Finding("engine", "ok", said)


def _built_image(project: Project) -> Finding:
    """What `opsctl build` has made of the project, or whether it can."""
    from opsctl.images.build import planned

    try:
        found = planned(project, never)
    except (PreflightRefused, BuildFailed, ConfigError) as error:
        return Finding("image", "fail", error.what, f"{error.why}. {error.next_step}")
    return Finding("image", "ok", found or "will be built")


def _image(target: DockerTarget) -> Finding:
    name = target.project.service.app.image
    if name is None and target.project.service.build is not None:
        return _built_image(target.project)
    if not name:
        return Finding(
            "image", "fail", "app.image is not set",
            "Set app.image in opsctl.yaml, or build one: opsctl build.",
        )  # fmt: skip
    found = image_source.architectures(target.engine, name)
    here = image_source.host_architecture(target.engine)
    if found and here not in found:
        said = f"{name} is for {', '.join(found)}, the host is {here}"
        return Finding("image", "fail", said, f"Build it for {here}, or name another app.image.")
    return Finding("image", "ok", f"{name} ({', '.join(found) or 'not pulled yet'})")


def _place(target: DockerTarget) -> Iterator[Finding]:
    settings = target.settings
    port = 0 if settings.port == "auto" else int(settings.port)
    place = target.call({"call": "place", "port": port, "host": settings.host})
    if not port:
        yield Finding("front door", "ok", "the first free port from 8501 on")
    elif place["port_free"]:
        yield Finding("front door", "ok", f"port {port} is free or ours")
    else:
        where = f"port {port} of {settings.host} is not to be had: {place['port_holder']}"
        advice = "Stop what holds it, or set docker.port in opsctl.yaml."
        if port < PRIVILEGED_BELOW:
            advice += (
                " Ports below 1024 need sysctl net.ipv4.ip_unprivileged_port_start on the host."
            )
        yield Finding("front door", "fail", where, advice)
    least_mb = target.project.service.retention.min_free_mb
    said = f"{place['free_mb']} MB are free on the Docker host"
    if place["free_mb"] < least_mb:
        advice = "Free some space (docker image prune), or lower retention.min_free_mb."
        yield Finding("disk space", "fail", f"{said}, {least_mb} MB are needed", advice)
    else:
        yield Finding("disk space", "ok", said)


def _memory(target: DockerTarget, state: DesiredState, info: Any) -> Finding:
    limit_mb = target.project.service.resources.memory_mb
    total_mb = info["MemTotal"] // MIB
    if limit_mb is None:
        return Finding("memory", "ok", f"the host has {total_mb} MiB, no limit is set")
    replicas = sum(share.replicas for share in state.shares)
    said = f"{replicas} replicas may use {replicas * limit_mb} MiB, the host has {total_mb}"
    if limit_mb > total_mb:
        return Finding("memory", "fail", said, "Lower resources.memory_mb.")
    if replicas * limit_mb > total_mb:
        return Finding("memory", "warn", said, "Run fewer replicas, or use strategy recreate.")
    return Finding("memory", "ok", said)


def _cpus(target: DockerTarget, state: DesiredState, info: Any) -> Finding:
    count = info["NCPU"]
    wanted = set(target.project.service.resources.cpus)
    wanted = wanted.union(*(share.cpus for share in state.shares))
    missing = sorted(cpu for cpu in wanted if cpu >= count)
    if missing:
        said = f"CPUs {missing} are not to be had, the host has 0-{count - 1}"
        return Finding("cpus", "fail", said, "Change resources.cpus.")
    return Finding("cpus", "ok", f"the host has {count} CPUs")


def _npus(target: DockerTarget, state: DesiredState) -> Iterator[Finding]:
    """Whether the fullest state of the rollout has room, and what to do when it hasn't."""
    wanted = target.settings.npus
    if not wanted.count:
        return
    try:
        settings = target.npus()
    except OpsctlError as error:
        yield Finding("npus", "fail", f"{error.what}: {error.why}", error.next_step)
        return
    holders = npu_host.holders(target.engine)
    ours = [one for one in holders if _is_ours(target, one)]
    own = sum(len(one["Labels"][NPUS].split()) for one in ours)
    needed = sum(share.replicas for share in state.shares) * wanted.count
    room = own + npus.free_count(settings, holders)
    said = f"{needed} NPUs are needed at the fullest, {room} are to be had ({settings['access']})"
    if needed <= room or (wanted.share and wanted.devices):
        yield Finding("npus", "ok", said)
    elif target.project.service.strategy.type == "recreate":
        yield Finding("npus", "fail", said, "Run fewer replicas, or free NPUs.")
    else:
        advice = "Set strategy.type: recreate (no room for two releases), or docker.npus.share."
        yield Finding("npus", "fail", said, advice)


def _certificate(target: DockerTarget) -> Iterator[Finding]:
    from opsctl.targets.supervisor import tls

    files = target.settings.tls
    if files is not None:
        root = target.project.root
        yield tls.finding(root / files.certificate, root / files.private_key, "docker.tls")


def _is_ours(target: DockerTarget, container: Any) -> bool:
    wanted = target.names.labels(REPLICA_PART)
    return bool(wanted.items() <= container["Labels"].items())
