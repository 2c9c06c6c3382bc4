"""The cluster of this checkout: the one that runs, or one for this run of the tests."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.kubernetes import ENVIRONMENT, SCRIPT, Cluster

BUILD_S = 3600.0
"""The first time everything is built from source; scripts/test does that before."""

STATUS_TRIES = 5


def missing() -> str:
    """Why there can be no cluster here; empty when there can."""
    if sys.platform != "linux":
        return "a node of Kubernetes needs Linux"
    if os.geteuid() != 0:
        return "a node of Kubernetes needs root"
    return ""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One node. It stays up afterwards when it was up before."""
    if why := missing():
        pytest.skip(why)
    was_up = is_up()
    if not was_up:
        up = script("up")
        assert up.returncode == 0, up.stdout + up.stderr
    yield Cluster({**os.environ, **json.loads(ENVIRONMENT.read_text())})
    if not was_up:
        script("down")


def is_up() -> bool:
    """Whether it runs. A busy one may answer late, and must not be taken for one of our own."""
    return any(script("status").returncode == 0 for _ in range(STATUS_TRIES))


def script(verb: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/cluster."""
    return subprocess.run(
        [str(SCRIPT), verb], capture_output=True, text=True, timeout=BUILD_S, check=False
    )


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the strictest level for one test."""
    with cluster.namespace(f"t-{secrets.token_hex(4)}") as name:
        yield name
