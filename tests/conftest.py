"""What every test may use."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

CAMPAIGN_SEED_VARIABLE = "OPSCTL_TEST_SEED"


def campaign_seed() -> int:
    """This run's seed of the random campaigns; new in each run unless OPSCTL_TEST_SEED is set."""
    return int(os.environ.setdefault(CAMPAIGN_SEED_VARIABLE, str(secrets.randbelow(2**31))))


def pytest_configure() -> None:
    """Draw the seed before pytest's workers start, so that all have the same."""
    campaign_seed()


def pytest_report_header() -> str:
    """Print the seed, so that a failure can be repeated."""
    return f"seed of random campaigns: {campaign_seed()} (set {CAMPAIGN_SEED_VARIABLE} to repeat)"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """With several workers (-n), which of them runs what."""
    from tests.workers import ByGroup

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed that the header printed."""
    return campaign_seed()
