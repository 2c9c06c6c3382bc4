"""What every test may use."""

from __future__ import annotations

import os
import secrets

import pytest

CAMPAIGN_SEED_VARIABLE = "OPSCTL_TEST_SEED"


def campaign_seed() -> int:
    """This run's seed of the random campaigns; new in each run unless OPSCTL_TEST_SEED is set."""
    return int(os.environ.setdefault(CAMPAIGN_SEED_VARIABLE, str(secrets.randbelow(2**31))))


def pytest_report_header() -> str:
    """Print the seed, so that a failure can be repeated."""
    return f"seed of random campaigns: {campaign_seed()} (set {CAMPAIGN_SEED_VARIABLE} to repeat)"


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed that the header printed."""
    return campaign_seed()
