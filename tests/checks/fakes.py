"""A clock that tests move, and a target that shows what a test wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsctl.errors import OpsctlError
from opsctl.model import (
    DesiredState,
    Endpoint,
    Finding,
    Guard,
    Observed,
    Phase,
    Replica,
    Role,
    Share,
    Stamp,
    Traffic,
)
from opsctl.targets.target import CommandResult
from opsctl.wait import Wait


class ManualClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Waiting:
    """A `Wait` on a manual clock; keeps what was told, and can be stopped."""

    clock: ManualClock = field(default_factory=ManualClock)
    told: list[str] = field(default_factory=list)
    stop: OpsctlError | None = None

    @property
    def wait(self) -> Wait:
        return Wait(self.clock, self.told.append, self._interrupt)

    def _interrupt(self) -> None:
        if self.stop:
            raise self.stop


Scene = Observed | OpsctlError
Command = Callable[[Sequence[str]], CommandResult]


@dataclass
class ScriptedTarget:
    """Shows the scenes in order, and the last one for ever."""

    scenes: list[Scene]
    replicas: Mapping[str, Sequence[Endpoint]] = field(default_factory=dict)
    door: Endpoint = field(default_factory=lambda: Endpoint("127.0.0.1", 1))
    log: Sequence[str] = ()
    command: Command = lambda argv: CommandResult(0, "", "")
    findings: Sequence[Finding] = ()
    asked: int = 0
    ran: list[Sequence[str]] = field(default_factory=list)

    def preflight(self, state: DesiredState) -> Sequence[Finding]:
        return self.findings

    def apply(self, state: DesiredState, stamp: Stamp, guard: Guard) -> None:
        raise AssertionError("a check changes nothing")

    def observe(self) -> Observed:
        scene = self.scenes[min(self.asked, len(self.scenes) - 1)]
        self.asked += 1
        if isinstance(scene, OpsctlError):
            raise scene
        return scene

    def renew(self, epoch: int) -> None:
        raise AssertionError("a check changes nothing")

    def endpoints(self, release: str, role: Role = "serving") -> Sequence[Endpoint]:
        return self.replicas.get(release, ())

    def front_door(self) -> Endpoint:
        return self.door

    def logs(self, release: str, *, lines: int = 100, follow: bool = False) -> Iterator[str]:
        return iter(self.log[-lines:])

    def run_in(
        self,
        release: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        interrupt: Callable[[], None] | None = None,
    ) -> CommandResult:
        self.ran.append(argv)
        return self.command(argv)

    def events(self, release: str) -> Sequence[str]:
        return ()

    def down(self, epoch: int) -> None:
        raise AssertionError("a check changes nothing")


@dataclass(frozen=True)
class Seen:
    """What an observation shows besides its replicas."""

    traffic: tuple[Traffic, ...] = ()
    front_requests: int = 0
    front_errors: int = 0
    guard_reason: str = ""
    balancer_up: bool = True
    converged: bool = True
    desired: tuple[Share, ...] = (Share("r1", 1, 100),)


def replica(name: str, phase: Phase = "ready", **more: object) -> Replica:
    """A replica by its name (`r2-1`)."""
    return replace(Replica(name, name.split("-")[0], "serving", phase), **more)  # type: ignore[arg-type]


def observed(*replicas: Replica, seen: Seen | None = None) -> Observed:
    """An observation of these replicas."""
    seen = seen or Seen()
    return Observed(
        stamp=Stamp(1, 1),
        desired=DesiredState(seen.desired),
        converged=seen.converged,
        replicas=replicas,
        traffic=seen.traffic,
        balancer_up=seen.balancer_up,
        front_url="http://127.0.0.1:1",
        front_requests=seen.front_requests,
        front_errors=seen.front_errors,
        guarded=bool(seen.guard_reason),
        guard_reason=seen.guard_reason,
    )
