"""What `bench.protocol: grpc` asks of the other keys."""

from __future__ import annotations

import pytest

from tests.config.conftest import MINIMAL, Told
from tests.config.test_problems import AFTER


@pytest.mark.parametrize(
    ("bench", "key", "what"),
    [
        (
            "{path: /score, body: {}, protocol: grpc}",
            "path",
            "names no model for grpc; allowed: /v1/models/NAME[/versions/N]:predict",
        ),
        (
            '{path: "/v1/models/m:predict", method: GET, protocol: grpc}',
            "method",
            "GET is not for grpc; allowed: POST",
        ),
        (
            '{path: "/v1/models/m:predict", grpc_port: 8500}',
            "grpc_port",
            "is for `protocol: grpc` alone",
        ),
        (
            '{path: "/v1/models/m:predict", protocol: http2}',
            "protocol",
            'found "http2" (text); allowed: one of rest, grpc',
        ),
    ],
)
def test_keys_that_do_not_fit_the_protocol_are_refused(
    told: Told, bench: str, key: str, what: str
) -> None:
    text = f"{MINIMAL}    bench: {bench}\n"
    assert told(text) == [(AFTER, f"services.web.bench.{key}", what)]
