"""What Helm's own words mean."""

from __future__ import annotations

import pytest

from opsctl.targets.kubernetes.helm import is_passing

FAILED = "Error: UPGRADE FAILED: "
ASKED = 'Error: query: failed to query with labels: Get "https://10.98.1.2:6443/api/v1": '


@pytest.mark.parametrize(
    "said",
    [
        f"{FAILED}create: failed to create: Post: read: connection reset by peer",
        f"{ASKED}dial tcp 10.98.1.2:6443: connect: connection refused",
        f"{FAILED}the server is currently unable to handle the request",
        f"{ASKED}net/http: TLS handshake timeout",
    ],
)
def test_a_server_that_is_away_is_waited_for(said: str) -> None:
    assert is_passing(said)


@pytest.mark.parametrize(
    "said",
    [
        f"{FAILED}another operation (install/upgrade/rollback) is in progress",
        f'{FAILED}secrets is forbidden: User "me" cannot list resource "secrets"',
        f"{FAILED}Apply failed with 1 conflict: conflict with kubectl-edit: .spec.replicas",
        "Error: values don't meet the specifications of the schema(s) in the following chart(s)",
    ],
)
def test_what_stays_as_it_is_is_not_tried_for_a_minute(said: str) -> None:
    assert not is_passing(said)
