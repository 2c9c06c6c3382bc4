"""The one error tree, with the exit code that each class stands for.

    OpsctlError                   1   internal error
    ├── ConfigError               2   usage or configuration wrong; nothing touched
    │   └── ConfigFileError       2   … with file, line and key (opsctl.config.problems)
    ├── PreflightRefused          4   preflight or policy refused; nothing touched
    ├── BuildFailed               5   build failed; nothing touched
    ├── CandidateFailed          10   the candidate did not start, or died
    │   ├── HealthFailed         13   (on its own; 10 inside a deploy)
    │   ├── SmokeFailed          13
    │   ├── GateFailed           14
    │   └── GateUndecided        15   inconclusive, or no data
    ├── HookFailed               10
    ├── RollbackFailed           11   rollback failed or unproved: page someone
    ├── WaitingForPerson         20   approval or `resume` is awaited
    ├── LockHeld                 21   another opsctl is at work
    ├── Superseded               22   another opsctl took over; this one changed nothing since
    ├── Aborted                  23   a person said `opsctl abort`
    ├── TimedOut                 24   `opsctl resume` is safe
    ├── TargetUnreachable        30   target unreachable or not allowed
    ├── JournalBroken             1   the journal is torn, cut or altered
    ├── RequestArrived          (1)   never leaves the loop: a request waits in the inbox
    └── Interrupted             130   SIGINT (143 for SIGTERM); journal saved

An error says what happened, why, and what to do next. `retryable` is part of the type.
"""

from __future__ import annotations

from typing import ClassVar


class OpsctlError(Exception):
    """Base of every error that opsctl raises on purpose."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, what: str, *, why: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self) -> str:
        """`what: why. next step` on one line."""
        head = f"{self.what}: {self.why}" if self.why else self.what
        return f"{head.rstrip('.')}. {self.next_step}" if self.next_step else head

    def to_dict(self) -> dict[str, str | int]:
        """The error as journal and report keep it."""
        return {
            "type": type(self).__name__,
            "exit_code": self.exit_code,
            "what": self.what,
            "why": self.why,
            "next_step": self.next_step,
        }


class ConfigError(OpsctlError):
    """The command line or opsctl.yaml is wrong; nothing was touched."""

    exit_code = 2


class PreflightRefused(OpsctlError):
    """A check before the first change said no; nothing was touched."""

    exit_code = 4


class BuildFailed(OpsctlError):
    """The release could not be built; nothing was touched."""

    exit_code = 5


class CandidateFailed(OpsctlError):
    """The candidate did not start, or died."""

    exit_code = 10


class HealthFailed(CandidateFailed):
    """The candidate is not healthy."""

    exit_code = 13


class SmokeFailed(CandidateFailed):
    """A smoke test got a wrong answer."""

    exit_code = 13


class GateFailed(CandidateFailed):
    """The benchmark gate proved a regression, or an absolute limit was passed."""

    exit_code = 14


class GateUndecided(CandidateFailed):
    """The gate could not decide: inconclusive, or no data."""

    exit_code = 15


class HookFailed(OpsctlError):
    """A hook before a step failed, which stops the rollout."""

    exit_code = 10


class RollbackFailed(OpsctlError):
    """The old release could not be proved healthy again: page someone."""

    exit_code = 11


class WaitingForPerson(OpsctlError):
    """The rollout waits for `opsctl approve` or `opsctl resume`."""

    exit_code = 20


class LockHeld(OpsctlError):
    """Another opsctl works on this service."""

    exit_code = 21
    retryable = True


class Superseded(OpsctlError):
    """Another opsctl took over; this one may change nothing any more."""

    exit_code = 22


class Aborted(OpsctlError):
    """A person asked for `opsctl abort`."""

    exit_code = 23


class TimedOut(OpsctlError):
    """A time limit passed; `opsctl resume` is safe."""

    exit_code = 24
    retryable = True


class TargetUnreachable(OpsctlError):
    """The target can't be reached, or does not allow the action."""

    exit_code = 30
    retryable = True


class JournalBroken(OpsctlError):
    """The journal is torn, cut or altered; `opsctl resume` rebuilds it from what runs."""


class RequestArrived(OpsctlError):
    """A request of somebody waits in the inbox; the loop takes it and goes on."""

    retryable = True


class Interrupted(OpsctlError):
    """SIGINT or SIGTERM arrived; the journal is saved and the candidate is off traffic."""

    exit_code = 130

    def __init__(self, signal_number: int) -> None:
        super().__init__(
            f"stopped by signal {signal_number}", next_step="Run: opsctl resume (or opsctl abort)"
        )
        self.signal_number = signal_number

    @property
    def signal_exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + self.signal_number
