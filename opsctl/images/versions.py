"""Order of the version numbers of CANN and its drivers, like 24.1.RC2 < 24.1.0 < 25.0."""

from __future__ import annotations

import re
from typing import NamedTuple

NUMBERS = 4
"""Numbers of a version; those that are not written are 0."""


class VersionKey(NamedTuple):
    """A key to sort by. A release candidate (-1, its number) is older than its release (0, 0)."""

    numbers: tuple[int, ...]
    candidate: tuple[int, int]


def version_key(version: str) -> VersionKey:
    """The key of a version; in 25.5.X, any 25.5 is meant."""
    words = re.findall(r"[a-z]+\d*|\d+", version.lower())
    numbers = [int(word) for word in words if word.isdigit()][:NUMBERS]
    named = [word for word in words if not word.isdigit() and word != "x"]
    candidate = (-1, int(re.sub(r"\D", "", named[0]) or 0)) if named else (0, 0)
    return VersionKey((*numbers, *[0] * (NUMBERS - len(numbers))), candidate)
