"""This machine's engine for tests in any folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.bench_yard import Host, host_or_skip


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """The engine that `scripts/docker up` made ready; a test without one is skipped."""
    host = host_or_skip()
    yield host
    host.engine.close()
