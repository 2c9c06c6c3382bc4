"""What a command gives back: an exit code, an object for programs, a text for people.

Imports next to nothing, as even `opsctl version` needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """How a command ended."""

    exit_code: int
    data: dict[str, Any]
    text: str


def simple(outcome: str, text: str, exit_code: int = 0, **fields: object) -> Outcome:
    """An outcome without a rollout."""
    return Outcome(exit_code, {"outcome": outcome, "exit_code": exit_code, **fields}, text)
