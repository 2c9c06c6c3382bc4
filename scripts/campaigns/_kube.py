"""What the campaigns on target `kubernetes` have in common: a namespace and its service."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.nodes.layout import load as load_layout
from tests.apps.processes import ClientRun, start_client
from tests.apps.project import SERVICE, Options, ServiceProject
from tests.cluster.gateway import traefik
from tests.cluster.kubernetes import ENVIRONMENT, Cluster
from tests.kubernetes.light_project import (
    KubeLight,
    KubeOpsctl,
    by_route,
    image_with_model,
    inside,
    light_in,
    use_cluster,
)

RATE_PER_S = 100.0


def cluster_or_fail() -> Cluster:
    """The cluster of this checkout, which runs. Raises RuntimeError."""
    if load_layout() is None or not ENVIRONMENT.exists():
        raise RuntimeError("no cluster of this checkout runs; start one with scripts/cluster up")
    cluster = Cluster({**os.environ, **json.loads(ENVIRONMENT.read_text())})
    use_cluster(cluster)
    return cluster


@contextlib.contextmanager
def service_in(workdir: Path, options: Options) -> Iterator[KubeOpsctl]:
    """opsctl in a project of its own namespace, shared by replicas; both go with the block."""
    cluster = cluster_or_fail()
    with tempfile.TemporaryDirectory() as folder:
        image = image_with_model(cluster, Path(folder) / "root")
    with cluster.namespace(f"c-{secrets.token_hex(4)}") as namespace:
        light = light_in(cluster, namespace, workdir / "project", image, options)
        yield KubeOpsctl(light, light)


@contextlib.contextmanager
def routed(opsctl: KubeOpsctl, folder: Path) -> Iterator[KubeOpsctl]:
    """The same service behind a Gateway."""
    light = opsctl.light
    with traefik(light.cluster, light.namespace, folder) as port:
        behind = by_route(light, port)
        yield KubeOpsctl(behind, behind)


def watch(project: ServiceProject) -> list[ClientRun]:
    """Two clients: one at the front door, one inside the cluster at the Service's address."""
    assert isinstance(project, KubeLight)
    address = project.cluster.get("service", SERVICE, "-n", project.namespace)["spec"]["clusterIP"]
    folder = project.root / "inside"
    folder.mkdir(exist_ok=True)
    within = project.cluster.within()
    return [
        start_client(project, project.root, rate=RATE_PER_S),
        start_client(inside(project, address), folder, rate=RATE_PER_S, within=within),
    ]
