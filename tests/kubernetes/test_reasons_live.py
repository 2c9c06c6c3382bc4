"""Reasons told from what the kubelet and API server of this checkout's cluster say now."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.cluster.fixtures import cluster as cluster
from tests.cluster.kubernetes import Cluster
from tests.kubernetes.broken import EXPECTED, REFUSED
from tests.kubernetes.broken_yard import Yard, yard

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def broken(cluster: Cluster) -> Iterator[Yard]:
    with yard(cluster, f"t-{secrets.token_hex(4)}") as made:
        yield made


def test_every_pod_and_every_refusal_is_explained_and_what_is_well_is_not(broken: Yard) -> None:
    told = broken.reasons()
    assert "Pod/well" not in told
    for name, expected in EXPECTED.items():
        reason = told[f"Pod/{name}"]
        assert reason.reason in expected.reasons
        assert expected.what in reason.what
        assert expected.next_step in reason.next_step
        assert reason.final == expected.final
        assert reason.last_event
    for name, (word, said) in REFUSED.items():
        reason = told[f"ReplicaSet/{name}"]
        assert reason.reason == word
        assert said in reason.what
        assert reason.last_event.startswith("FailedCreate: ")
