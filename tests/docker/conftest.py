"""This machine's engine for tests in this folder."""

from __future__ import annotations

from tests.docker.fixtures import host as host
