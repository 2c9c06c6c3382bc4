"""What the contract tests ask of a target's stage: the same for processes, Docker, Kubernetes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from opsctl.model import DesiredState, Guard, Observed, Share, Stamp
from opsctl.targets.target import Target

PATIENCE_S = 240.0
"""Long enough for a node on a machine that is ten times slower than it should be."""


class Stage(Protocol):
    """A place where one service of the test application can run."""

    @property
    def target(self) -> Target:
        """The target under test."""

    @property
    def retries(self) -> bool:
        """Whether the front door asks another replica when one has just died."""

    @property
    def epoch(self) -> int:
        """The last epoch of an earlier test; 0 on a new stage."""

    def release(self, name: str, **env: str) -> str:
        """Make a release of the test application known, with variables for its behaviour."""

    def ask(self, path: str = "/", body: str = "{}") -> tuple[int, str]:
        """POST at the front door: status, and the release that answered (header)."""

    def called(self, replicas: Iterable[str]) -> list[str]:
        """Names of replicas as the contract has them: `r1-2`, and `r1-b1` for a baseline."""

    def kill_a_replica(self, release: str) -> None:
        """SIGKILL for one replica of a release."""

    def begins(self, event: str, replica: str) -> bool:
        """Whether an event tells that a replica was started."""

    def left_over(self) -> list[str]:
        """What of the service still runs or lies about on the target after `down`."""

    def clear(self) -> None:
        """Leave nothing, by force."""


class Holder:
    """Somebody who orders states, with growing stamps, and stays in charge while waiting."""

    def __init__(self, stage: Stage, epoch: int = 1) -> None:
        self.stage = stage
        self.target = stage.target
        self.epoch = stage.epoch + epoch
        self.sequence = 0

    def apply(self, *shares: Share, safe: DesiredState | None = None, **guard: Any) -> Stamp:
        self.sequence += 1
        state = DesiredState(shares)
        stamp = Stamp(self.epoch, self.sequence, f"{self.sequence:016x}")
        self.target.apply(state, stamp, Guard(safe or state, **guard))
        return stamp

    def converge(self, *shares: Share, timeout_s: float = PATIENCE_S, **guard: Any) -> Observed:
        self.apply(*shares, **guard)
        return self.wait(lambda seen: seen.converged, timeout_s)

    def wait(
        self,
        condition: Callable[[Observed], object],
        timeout_s: float = PATIENCE_S,
        *,
        renew: bool = True,
    ) -> Observed:
        limit = time.monotonic() + timeout_s
        while True:
            seen = self.target.observe()
            if condition(seen):
                return seen
            assert time.monotonic() < limit, f"never came true: {seen}"
            if renew:
                self.target.renew(self.epoch)
            time.sleep(0.05)

    def answers(self, count: int) -> dict[str, int]:
        """How many of `count` requests each release answered; all must succeed."""
        found: dict[str, int] = {}
        for _ in range(count):
            status, release = self.stage.ask()
            assert status == 200
            found[release] = found.get(release, 0) + 1
        return found
