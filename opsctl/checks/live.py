"""Live limits: the users' own traffic while a release is on trial."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from opsctl.checks.exchange import Request
from opsctl.checks.front_door import ProbeCount, probe
from opsctl.checks.health import exit_in_words, with_logs
from opsctl.errors import HealthFailed, TargetUnreachable
from opsctl.model import Endpoint, Json, LiveLimits, Observed, Replica, Traffic
from opsctl.targets.target import Target
from opsctl.wait import Wait

POLL_S = 0.2
PROBES_PER_S = 5.0
"""Enough to see which release answers within a second, too few to load anything."""

UNREACHABLE_MAX_S = 10.0


@dataclass(frozen=True)
class Trial:
    """Which release is watched, within which limits, how long, and what probes ask."""

    release: str
    limits: LiveLimits
    hold_s: float
    probe: Request


@dataclass(frozen=True)
class LiveReport:
    """What was seen since the hold began, at the front door and of the release's part in it.

    Counters are the balancer's: they hold opsctl's own probes beside the users' requests.
    """

    release: str
    duration_s: float
    requests: int
    errors: int
    restarts: int
    front_requests: int
    front_errors: int
    probes: Json

    def to_dict(self) -> Json:
        return dict(self.__dict__)


def watch_live(target: Target, trial: Trial, wait: Wait) -> LiveReport:
    """Watch for `hold_s` seconds. Raises `HealthFailed` with figures as soon as a limit breaks."""
    prober = _Prober(target.front_door(), trial.probe, wait)
    watch = _Watch(trial, target.observe())
    begin = wait.clock.monotonic()
    beat = wait.heartbeat(watch.progress)
    answered = begin
    prober.start()
    try:
        while True:
            wait.interrupt()
            now = wait.clock.monotonic()
            try:
                watch.see(target.observe())
                answered = now
            except TargetUnreachable:
                if now - answered > UNREACHABLE_MAX_S:
                    raise
            broken = watch.broken()
            if broken:
                raise _failed(target, trial, broken)
            if now - begin >= trial.hold_s:
                break
            beat()
            wait.pause(min(POLL_S, begin + trial.hold_s - now))
    finally:
        prober.stop()
    return watch.report(round(wait.clock.monotonic() - begin, 3), prober.count)


class _Watch:
    """Counters since the hold began, robust to a balancer that starts again from zero."""

    def __init__(self, trial: Trial, first: Observed) -> None:
        self._trial = trial
        self._last = first
        self._restarts = {r.name: r.restarts for r in first.of(trial.release)}
        self._was_ready: set[str] = set()
        self.requests = self.errors = 0
        self.front_requests = self.front_errors = 0
        self._note_ready(first)

    def see(self, observed: Observed) -> None:
        old, new = self._traffic(self._last), self._traffic(observed)
        self.requests += _grown(old.requests, new.requests)
        self.errors += _grown(old.errors, new.errors)
        self.front_requests += _grown(self._last.front_requests, observed.front_requests)
        self.front_errors += _grown(self._last.front_errors, observed.front_errors)
        self._last = observed
        self._note_ready(observed)

    def broken(self) -> str:
        """Which limit is broken, with figures; empty when none is."""
        if self._last.guarded:
            return f"the target's guard stepped in: {self._last.guard_reason}"
        replicas = self._last.of(self._trial.release)
        if not replicas:
            return "it has no replica any more"
        for replica in replicas:
            # Whoever is told to stop (a pod that a person deletes, a node that is drained) is not
            # ill: another takes its place.
            ill = replica.phase not in ("ready", "stopping")
            if ill and replica.name in self._was_ready:
                return _state(replica)
        limits = self._trial.limits
        if self.restarts > limits.restarts_max:
            return f"{self.restarts} restarts during the hold, allowed {limits.restarts_max}"
        if self.requests >= limits.requests_min:
            rate = self.errors / self.requests
            if rate > limits.error_rate_max:
                return (
                    f"{self.errors} of its {self.requests} requests failed"
                    f" ({rate:.2%}, allowed {limits.error_rate_max:.2%})"
                )
        return ""

    @property
    def restarts(self) -> int:
        """Restarts of the release's replicas since the hold began."""
        return sum(
            max(0, replica.restarts - self._restarts.get(replica.name, 0))
            for replica in self._last.of(self._trial.release)
        )

    def progress(self, elapsed: float) -> str:
        return (
            f"{self._trial.release}: {elapsed:.0f} s of {self._trial.hold_s:g} s,"
            f" {self.requests} requests, {self.errors} failed"
        )

    def report(self, duration_s: float, probes: ProbeCount) -> LiveReport:
        return LiveReport(
            release=self._trial.release,
            duration_s=duration_s,
            requests=self.requests,
            errors=self.errors,
            restarts=self.restarts,
            front_requests=self.front_requests,
            front_errors=self.front_errors,
            probes=probes.to_dict(),
        )

    def _traffic(self, observed: Observed) -> Traffic:
        return observed.traffic_of(self._trial.release)

    def _note_ready(self, observed: Observed) -> None:
        self._was_ready |= {
            replica.name for replica in observed.of(self._trial.release) if replica.phase == "ready"
        }


class _Prober:
    """Sends the safe request through the front door a few times a second, in a thread."""

    def __init__(self, door: Endpoint, request: Request, wait: Wait) -> None:
        self.count = ProbeCount()
        self._door = door
        self._request = request
        self._now: Callable[[], float] = wait.clock.now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                seen = probe(self._door, self._request, self._asked_to_stop)
            except _Stopped:
                return
            self.count.add(seen, self._now())
            self._stop.wait(1 / PROBES_PER_S)

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            raise _Stopped


class _Stopped(Exception):
    """The hold is over."""


def _grown(old: int, new: int) -> int:
    """Growth of a counter that starts from zero when the balancer does."""
    return new - old if new >= old else new


def _state(replica: Replica) -> str:
    code = "" if replica.exit_code is None else f", after {exit_in_words(replica.exit_code)}"
    reason = f": {replica.reason}" if replica.reason else ""
    return f"{replica.name} is {replica.phase}{code}{reason}"


def _failed(target: Target, trial: Trial, broken: str) -> HealthFailed:
    return HealthFailed(
        f"{trial.release} broke a live limit",
        why=with_logs(target, trial.release, broken),
        next_step=f"Look at it with: opsctl logs {trial.release}",
    )
