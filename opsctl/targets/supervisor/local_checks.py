"""Preflight of target `local`: what stands against a state, before anything is touched."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from opsctl import shell
from opsctl.config.settings import Project
from opsctl.model import DesiredState, Finding
from opsctl.ports import port_holder
from opsctl.targets.supervisor import haproxy_binary, offline, ports, procfs
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.run_settings import RunSettings

HAPROXY_MIN = (2, 6)
"""`option idle-close-on-response`, which reloads lean on, was added to 2.5 and came with 2.6."""

MIB = 1024 * 1024


def preflight(
    project: Project, settings: RunSettings, layout: Layout, state: DesiredState
) -> list[Finding]:
    """All findings, the good ones too."""
    return [
        _balancer(settings),
        _state_folder(layout, project.service.retention.min_free_mb),
        _front_port(settings, layout),
        _replica_ports(settings, state),
        *([_certificate(settings)] if settings.tls else []),
    ]


def _balancer(settings: RunSettings) -> Finding:
    done = shell.run(
        [haproxy_binary.find(settings.haproxy) or settings.haproxy, "-v"], timeout_s=10
    )
    found = re.search(r"version (\d+)\.(\d+)[^\s-]*", done.stdout)
    if not done.ok or not found:
        return Finding(
            "balancer", "fail", f"{settings.haproxy} can't be run: {done.why}",
            "Install HAProxy 2.6 or newer (Debian: apt-get install haproxy) or set local.haproxy.",
        )  # fmt: skip
    if (int(found[1]), int(found[2])) < HAPROXY_MIN:
        what = f"HAProxy {found[0]} is too old"
        return Finding("balancer", "fail", what, "Install 2.6 or newer.")
    return Finding("balancer", "ok", f"HAProxy {found[0]}")


def _state_folder(layout: Layout, min_free_mb: int) -> Finding:
    folder = layout.service_dir
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK) or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return Finding(
            "state directory", "fail", f"{folder} can't be written",
            "Make it writable or set local.state_dir.",
        )  # fmt: skip
    free_mb = shutil.disk_usage(folder).free // MIB
    if free_mb < min_free_mb:
        return Finding(
            "state directory", "fail", f"{folder} has {free_mb} MiB free, {min_free_mb} are needed",
            "Free some space, run opsctl releases prune, or set retention.min_free_mb.",
        )  # fmt: skip
    return Finding("state directory", "ok", f"{layout.service_dir}, {free_mb} MiB free")


def _front_port(settings: RunSettings, layout: Layout) -> Finding:
    if not settings.port:
        return Finding("front door", "ok", "the first free port from 8501 on")
    if ports.is_free(settings.port, settings.host):
        return Finding("front door", "ok", f"port {settings.port} is free")
    holder = port_holder(settings.port)
    own = procfs.marked(layout.service_dir)
    if holder and holder.pid in own:
        return Finding("front door", "ok", f"port {settings.port} is ours")
    remembered = offline.remembered(layout)
    where = f"port {settings.port} of {settings.host}"
    why = f"is held by {holder}" if holder else "can't be bound"
    was_ours = remembered is not None and remembered.front_port == settings.port
    more = " (it was this service's until now)" if was_ours else ""
    return Finding(
        "front door", "fail", f"{where} {why}{more}", "Stop it, or set local.port in opsctl.yaml."
    )


def _replica_ports(settings: RunSettings, state: DesiredState) -> Finding:
    low, high = settings.replica_ports
    needed = 2 * sum(share.replicas for share in state.shares)
    free = 0
    for port in range(low, high + 1):
        free += ports.is_free(port)
        if free >= needed:
            return Finding("replica ports", "ok", f"{needed} of {low}-{high} are free")
    return Finding(
        "replica ports", "fail", f"{free} ports of {low}-{high} are free, {needed} are needed",
        "Widen local.replica_ports.",
    )  # fmt: skip


def _certificate(settings: RunSettings) -> Finding:
    from opsctl.targets.supervisor import tls

    files = Path(settings.tls_certificate), Path(settings.tls_private_key)
    return tls.finding(*files, "local.tls")
