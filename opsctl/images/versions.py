"""Order of the version numbers of CANN and its drivers, like 24.1.RC2 < 24.1.0 < 25.0."""

from __future__ import annotations

import re

PRE_RELEASE = -1
"""Where a word (RC, alpha, beta) stands in the order: before any number."""


def version_key(version: str) -> tuple[tuple[int, int], ...]:
    """A key to sort by; `x` in 25.5.X counts as the highest number there."""
    key: list[tuple[int, int]] = []
    for word in re.findall(r"[a-z]+\d*|\d+", version.lower()):
        digits = re.sub(r"\D", "", word)
        if word.isdigit():
            key.append((0, int(word)))
        elif word != "x":
            key.append((PRE_RELEASE, int(digits or 0)))
    # 25.0 and 25.0.0 are the same; a release candidate of either is older than both.
    while key and key[-1] == (0, 0):
        key.pop()
    return (*key, (0, 0))
