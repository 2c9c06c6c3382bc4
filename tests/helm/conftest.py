"""The cluster of this checkout, whose Helms are used here."""

from __future__ import annotations

from tests.cluster.fixtures import cluster as cluster
