"""NPUs in containers: which are free, and what a container needs to get at them. Pure.

Through the vendor's runtime a container names its NPUs in ASCEND_VISIBLE_DEVICES; without it, it
gets device nodes and the driver's files (Ascend Docker Runtime's documentation, "plain docker").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.docker.names import NPUS, RELEASE, REPLICA, SERVICE

RUNTIME = "ascend"
"""Name under which the vendor's runtime registers with Docker."""

SHARED_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
DRIVER_FILES = ("/usr/local/dcmi", "/usr/local/bin/npu-smi", "/etc/ascend_install.info")
"""Beside the driver's own folder."""


class NoFreeNpu(TargetUnreachable):
    """Every NPU that a replica may have is in use."""


def choose(
    wanted: Mapping[str, Any], container: str, release: str, listed: Iterable[Mapping[str, Any]]
) -> tuple[int, ...]:
    """The NPUs of a container: those that it has, else free ones. Raises NoFreeNpu.

    `listed` are all containers of the host that hold NPUs, as `GET /containers/json` shows them.
    Two releases never share one unless `share` says so; nor do two replicas of one release.
    """
    users: dict[int, list[str]] = {}
    for one in listed:
        held = tuple(map(int, one["Labels"][NPUS].split()))
        if f"/{container}" in one["Names"]:
            return held
        for number in held:
            users.setdefault(number, []).append(_user(one["Labels"]))
    counts = Counter({number: len(names) for number, names in users.items()})
    allowed = [n for n in wanted["devices"] if wanted["share"] or not counts[n]]
    best = sorted(allowed, key=lambda number: (counts[number], number))[: wanted["count"]]
    if len(best) < wanted["count"]:
        holders = "; ".join(f"NPU {n}: {', '.join(users[n])}" for n in sorted(users))
        raise NoFreeNpu(
            f"{release} needs {wanted['count']} NPUs a replica, {len(best)} are free",
            why=holders or f"the host shows {list(wanted['devices'])}",
            next_step="Set strategy.type: recreate (no room for two), docker.npus.share,"
            " or stop what holds them.",
        )
    return tuple(sorted(best))


def free_count(wanted: Mapping[str, Any], listed: Iterable[Mapping[str, Any]]) -> int:
    """How many of the allowed NPUs nobody holds."""
    held = {int(n) for one in listed for n in one["Labels"][NPUS].split()}
    return sum(number not in held for number in wanted["devices"])


def devices_of(wanted: Mapping[str, Any], numbers: Iterable[int]) -> Json:
    """What a container's HostConfig (and `Env`) needs for these NPUs."""
    chosen = list(numbers)
    if wanted["access"] == "runtime":
        visible = ",".join(map(str, chosen))
        return {"Runtime": RUNTIME, "Env": {"ASCEND_VISIBLE_DEVICES": visible}}
    nodes = [*(f"/dev/davinci{number}" for number in chosen), *SHARED_NODES]
    mounts = [wanted["driver_dir"], *DRIVER_FILES]
    return {
        "Devices": [
            {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rw"}
            for node in nodes
        ],
        "Mounts": [
            {"Type": "bind", "Source": path, "Target": path, "ReadOnly": True} for path in mounts
        ],
    }


def _user(labels: Mapping[str, str]) -> str:
    return (
        f"{labels.get(REPLICA, '?')} of {labels.get(SERVICE, '?')}"
        if (RELEASE in labels)
        else "another container"
    )
