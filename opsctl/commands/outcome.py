"""What a command gives back: an exit code, an object for programs, a text for people."""

from __future__ import annotations

from dataclasses import dataclass

from opsctl.model import Json
from opsctl.rollout import Progress


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    exit_code: int
    data: Json
    text: str


def simple(outcome: str, text: str, exit_code: int = 0, **fields: object) -> Outcome:
    """An outcome without a rollout."""
    return Outcome(exit_code, {"outcome": outcome, "exit_code": exit_code, **fields}, text)


def of_rollout(progress: Progress, report: str = "") -> Outcome:
    """The outcome of a closed rollout."""
    assert progress.closed is not None
    closed = progress.closed
    serving = closed["serving_release"] or "nothing"
    data = {
        "outcome": closed["outcome"],
        "exit_code": closed["exit_code"],
        "serving_release": closed["serving_release"],
        "release": progress.candidate,
        "base": progress.base,
        "rollout": progress.rollout,
        "reason": closed["reason"],
        "journal_ms": closed.get("journal_ms"),
        "report": report,
    }
    lines = [f"{closed['outcome']}: {serving} serves (rollout {progress.rollout})"]
    if closed["exit_code"]:
        lines.append(f"because {closed['reason']}")
    if report:
        lines.append(f"report: {report}")
    return Outcome(closed["exit_code"], data, "\n".join(lines))
