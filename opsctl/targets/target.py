"""The protocol that every target obeys: few verbs, each idempotent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from opsctl.model import DesiredState, Endpoint, Finding, Guard, Json, Observed, Role, Stamp

if TYPE_CHECKING:
    from opsctl.bench import GateRequest


@dataclass(frozen=True)
class CommandResult:
    """Outcome of a command run in a release's environment; output is at most 64 KiB each."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Drift:
    """One difference between what a target was told to run and what is there."""

    object: str
    """What differs, as `Deployment light-r2` or `replica r2-1`."""
    path: str
    """Which of its fields; empty for the whole of it."""
    wanted: Any
    found: Any
    """None on either side: not there. Secrets are masked."""
    by: str = ""
    """Who changed it, as the target knows him."""

    def __str__(self) -> str:
        """On one line."""
        where = f"{self.object} {self.path}".rstrip()
        who = f" (by {self.by})" if self.by else ""
        return f"{where}: {_shown(self.wanted)} → {_shown(self.found)}{who}"

    def to_dict(self) -> Json:
        return dict(self.__dict__)


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


class Tap(Protocol):
    """Log lines of the load balancer about requests of users, while it is open."""

    def next(self, timeout_s: float) -> bytes | None:
        """The next line; None when none came in time. Raises TargetUnreachable."""


class Target(Protocol):
    """Where a service runs. Targets don't know each other, nor the rollout."""

    def preflight(self, state: DesiredState) -> Sequence[Finding]:
        """What stands against `state`, before anything is touched."""

    def apply(self, state: DesiredState, stamp: Stamp, guard: Guard) -> None:
        """Make `state` the desired one; returns when that is durable, before it is reached.

        The same call twice changes nothing. Raises `Superseded` for an epoch older than the
        newest that the target has seen, `TargetUnreachable` when nobody answers.
        """

    def observe(self) -> Observed:
        """What runs now. Raises `TargetUnreachable`."""

    def renew(self, epoch: int) -> None:
        """Renew the holder's lease. Raises `Superseded` for an older epoch."""

    def endpoints(self, release: str, role: Role = "serving") -> Sequence[Endpoint]:
        """Private endpoints of a release's replicas, whatever their weight."""

    def front_door(self) -> Endpoint:
        """Where users call."""

    def logs(self, release: str, *, lines: int = 100, follow: bool = False) -> Iterator[str]:
        """Log lines of all replicas of `release`, each led by the replica's name."""

    def run_in(
        self,
        release: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        interrupt: Callable[[], None] | None = None,
    ) -> CommandResult:
        """Run a command in the environment (directory, variables, limits) of `release`.

        It is ended when `interrupt` raises.
        """

    def events(self, release: str) -> Sequence[str]:
        """What happened to the release's replicas (starts, exits, kills), oldest first."""

    def down(self, epoch: int) -> None:
        """Stop everything of the service and remove what the target holds."""


class RemoteGate(Protocol):
    """Runs a benchmark gate where its arms are near."""

    def __call__(
        self, request: GateRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
    ) -> Json:
        """The gate's report. Raises what `opsctl.bench.run_gate` raises, and `GateUndecided` when
        it does not run there."""


class Handover(Protocol):
    """How a service that runs already comes to opsctl, and leaves it, without a restart."""

    def find(self, name: str) -> Sequence[str]:
        """Look at what is called `name` before it is taken; what of it will be left alone.

        Raises `PreflightRefused` when it can't be taken as it is.
        """

    def take(self, name: str, release: str, image: str) -> DesiredState:
        """Make it `release`, which is `image`; what runs then. It can be taken again.

        Raises `PreflightRefused` when another image runs, `TargetUnreachable`.
        """

    def give_back(self, epoch: int) -> Sequence[str]:
        """Let all that has traffic run on with nobody in charge of it; what those are called."""
