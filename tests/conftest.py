"""What every test may use."""

from __future__ import annotations

import os
import secrets

import pytest

CAMPAIGN_SEED_VARIABLE = "OPSCTL_TEST_SEED"

GROUPS = {
    "kernels/": "kernels",
    "images/": "serving",
    "tests/bench/": "services",
    "tests/campaigns/": "services",
    "tests/contract/": "services",
    "tests/e2e/": "services",
    "tests/targets/": "services",
}
"""Groups by folder: two gates side by side would take each other's CPU."""


def campaign_seed() -> int:
    """This run's seed of the random campaigns; new in each run unless OPSCTL_TEST_SEED is set."""
    return int(os.environ.setdefault(CAMPAIGN_SEED_VARIABLE, str(secrets.randbelow(2**31))))


def pytest_configure() -> None:
    """Draw the seed before pytest's workers start, so that all have the same."""
    campaign_seed()


def pytest_report_header() -> str:
    """Print the seed, so that a failure can be repeated."""
    return f"seed of random campaigns: {campaign_seed()} (set {CAMPAIGN_SEED_VARIABLE} to repeat)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one of pytest's workers has to itself, one after the other."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(worker_group(item)))


def worker_group(item: pytest.Item) -> str:
    """Tests that share what is made once a session, or that measure time, are of one group; else
    those of a file are."""
    for marker in ("cluster", "docker"):
        if item.get_closest_marker(marker):
            return marker
    path = item.path.relative_to(item.config.rootpath).as_posix()
    for folder, group in GROUPS.items():
        if path.startswith(folder):
            return group
    return path


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed that the header printed."""
    return campaign_seed()
