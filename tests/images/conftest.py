"""This machine's engine and BuildKit for tests in this folder."""

from __future__ import annotations

import pytest

from tests.docker.fixtures import host as host
from tests.images.yard import Yard, yard_or_skip


@pytest.fixture(scope="module")
def yard() -> Yard:
    """Where registry, base image and BuildKit are; a test without them is skipped."""
    return yard_or_skip()
