"""A namespace, and the light service in it, on this checkout's cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl.config.settings import Kubernetes
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.names import Names
from tests.apps.project import Options
from tests.cluster.fixtures import cluster as cluster
from tests.cluster.kubernetes import Cluster
from tests.kubernetes.guard_image import guard_image
from tests.kubernetes.light_project import KubeOpsctl, image_with_model, light_in


@pytest.fixture
def room(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A namespace of the strictest level, which this process reaches."""
    monkeypatch.setenv("KUBECONFIG", cluster.variables["KUBECONFIG"])
    with cluster.namespace(f"t-{secrets.token_hex(4)}") as name:
        yield name


@pytest.fixture
def names(room: str) -> Names:
    """What a service `light` is called there."""
    return Names("light", room)


@pytest.fixture
def api(room: str) -> Api:
    """The cluster's API."""
    return Api(Kubernetes())


@pytest.fixture(scope="session")
def image(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The light service with its model, by digest."""
    return image_with_model(cluster, tmp_path_factory.mktemp("image") / "root")


@pytest.fixture(scope="session")
def guards(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The guard's image."""
    return guard_image(cluster, tmp_path_factory.mktemp("guard"))


@pytest.fixture
def light(cluster: Cluster, room: str, image: str, tmp_path: Path) -> KubeOpsctl:
    """opsctl in a project of two replicas without a benchmark."""
    options = Options(replicas=2, gate=False)
    project = light_in(cluster, room, tmp_path / "project", image, options)
    return KubeOpsctl(project, project)
