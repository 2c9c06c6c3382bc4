"""The cluster of this checkout for tests in this folder."""

from __future__ import annotations

from tests.cluster.fixtures import cluster as cluster
from tests.cluster.fixtures import namespace as namespace
