"""Where a cluster's files lie, and its addresses. Standard library only: .venv may not be there."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
NAME_VARIABLE = "OPSCTL_CLUSTER"
"""Names a second cluster of the same checkout, for whoever must not meet the first one's users."""

OWN_NAME = os.environ.get(NAME_VARIABLE, "")
STATE = (
    Path("/var/lib/opsctl-cluster")
    / (hashlib.sha256(os.fsencode(CHECKOUT) + b"\0" + os.fsencode(OWN_NAME)).hexdigest()[:12])
)
"""On a disk, as containerd needs one that overlayfs can stand on; short, as the path of a socket
may have 107 bytes."""

FILES_FOR_PEOPLE = CHECKOUT / "build" / (f"cluster-{OWN_NAME}" if OWN_NAME else "cluster")
API_PORT = 6443
REGISTRY_PORT = 5000
SERVICE_RANGE = "10.96.0.0/16"
PODS_RANGE = "10.244.0.0/16"


@dataclass(frozen=True)
class Parts:
    """Folders of the binaries, as scripts/cluster made them."""

    kubernetes: str
    debian: str
    coredns: str
    gateway: str
    kwok: str
    monitoring: str
    images: str

    @property
    def path(self) -> str:
        """PATH of the components."""
        folders = [self.kubernetes, self.coredns, self.kwok]
        folders += [f"{self.debian}/usr/{folder}" for folder in ("bin", "sbin")]
        return ":".join([*folders, "/usr/sbin", "/usr/bin", "/sbin", "/bin"])


@dataclass(frozen=True)
class Layout:
    """One cluster: a name that is nowhere else on the machine, and a number for its addresses."""

    name: str
    number: int
    nodes: int
    parts: Parts

    @property
    def bridge(self) -> str:
        """The interface on the machine that the nodes hang on."""
        return f"opsctl{self.number}"

    @property
    def gateway_address(self) -> str:
        """The machine, as the nodes see it."""
        return f"10.98.{self.number}.1"

    def address(self, node: int) -> str:
        """A node (from 1 on), as the machine and the pods see it."""
        return f"10.98.{self.number}.{node + 1}"

    def pods(self, node: int) -> str:
        """The addresses of a node's pods."""
        return f"10.244.{node}.0/24"

    @property
    def api(self) -> str:
        """URL of the API server."""
        return f"https://{self.address(1)}:{API_PORT}"

    @property
    def registry(self) -> str:
        """Host and port of the registry, the same for people, pods and the kubelet."""
        return f"{self.address(1)}:{REGISTRY_PORT}"

    def node(self, node: int) -> Path:
        """Folder of one node."""
        return STATE / f"node{node}"

    @property
    def control(self) -> Path:
        """Folder of the control plane."""
        return STATE / "control"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return FILES_FOR_PEOPLE / "kubeconfig"

    def cgroup(self, node: int) -> str:
        """Name of the cgroup that holds a node's pods."""
        return f"{self.name}-{node}"


def save(layout: Layout) -> None:
    """Remember the cluster of this checkout."""
    STATE.mkdir(parents=True, exist_ok=True)
    (STATE / "layout.json").write_text(json.dumps(asdict(layout)))


def load() -> Layout | None:
    """The cluster of this checkout, also one that was killed; None when there is none."""
    try:
        values = json.loads((STATE / "layout.json").read_text())
    except FileNotFoundError:
        return None
    return Layout(**{**values, "parts": Parts(**values["parts"])})
