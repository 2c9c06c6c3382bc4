"""Asking where users ask: does the front door answer, and which release answers?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from opsctl.checks.exchange import Answer, Request, exchange
from opsctl.checks.smoke import request_of
from opsctl.config.settings import Service, SmokeTest
from opsctl.errors import HealthFailed, PreflightRefused
from opsctl.model import Endpoint, Json
from opsctl.targets.target import Target
from opsctl.wait import Wait

PROOF_STREAK = 3
"""Answers in a row from one release that prove that it has the traffic."""

PROOF_PAUSE_S = 0.02
FAILURES_KEPT = 20
"""Failed probes that are kept with time and reason; the rest is counted."""


@dataclass(frozen=True)
class Probe:
    """One answer at the front door. Failed: no answer, or a 5xx that the test does not expect."""

    release: str
    status: int
    duration_ms: float
    failed: bool
    what: str

    def to_dict(self) -> Json:
        return dict(self.__dict__)


@dataclass
class ProbeCount:
    """Probes of a while: how many, how many failed, and which releases answered."""

    probes: int = 0
    failures: int = 0
    slowest_ms: float = 0.0
    answered_by: Counter[str] = field(default_factory=Counter)
    failed: list[Json] = field(default_factory=list)

    def add(self, seen: Probe, at: float) -> None:
        """Count a probe made at wall time `at`."""
        self.probes += 1
        self.slowest_ms = max(self.slowest_ms, seen.duration_ms)
        if seen.release:
            self.answered_by[seen.release] += 1
        if seen.failed:
            self.failures += 1
            if len(self.failed) < FAILURES_KEPT:
                self.failed.append({"time": at, **seen.to_dict()})

    def to_dict(self) -> Json:
        return {**self.__dict__, "answered_by": dict(self.answered_by), "failed": [*self.failed]}


def safe_request(service: Service, root: Path) -> Request:
    """A request that may be repeated at will: what probes send through the front door.

    The first GET among the smoke tests; else the first smoke test on the path that opsctl.yaml
    allows to be benchmarked; else `GET /`, for which any answer below 500 is one.
    """
    for test in service.smoke:
        if not test.run and _repeatable(test, service):
            try:
                return request_of(test, root)
            except PreflightRefused:
                continue
    return Request("GET", "/")


def ask_front_door(
    target: Target, request: Request, interrupt: Callable[[], None] | None = None
) -> Probe:
    """One probe through the front door. Raises only what `interrupt` and the target raise."""
    return probe(target.front_door(), request, interrupt)


def prove_serving(
    target: Target, release: str, request: Request, wait: Wait, timeout_s: float
) -> ProbeCount:
    """Probe until only `release` answers, `PROOF_STREAK` times in a row. Where no answer tells its
    release (a Gateway adds no header, and the application may not either), any answer does.

    Raises `HealthFailed` when that is not so within `timeout_s`.
    """
    door = target.front_door()
    count = ProbeCount()
    streak = 0
    begin = wait.clock.monotonic()
    while streak < PROOF_STREAK:
        seen = probe(door, request, wait.interrupt)
        count.add(seen, wait.clock.now())
        named = count.answered_by.total() > 0
        right = seen.release == release or not (seen.release or named)
        streak = streak + 1 if right and not seen.failed else 0
        if streak < PROOF_STREAK and wait.clock.monotonic() - begin > timeout_s:
            raise HealthFailed(
                f"{release} does not answer alone at {door.url} after {timeout_s:g} s",
                why=f"the last answer came from {seen.release or 'nobody'} ({seen.what})",
                next_step="Run: opsctl status",
            )
        wait.pause(PROOF_PAUSE_S)
    return count


def probe(door: Endpoint, request: Request, interrupt: Callable[[], None] | None = None) -> Probe:
    """One probe at `door`. Raises only what `interrupt` raises."""
    answer = exchange(door, request, interrupt)
    return Probe(
        release=answer.release,
        status=answer.status,
        duration_ms=round(answer.duration_s * 1000, 3),
        failed=_failed(answer),
        what=answer.error or f"status {answer.status}",
    )


def _failed(answer: Answer) -> bool:
    # A 4xx may be right: a release may not know yet, or no more, what the test asks for.
    return bool(answer.error) or answer.status >= 500


def _repeatable(test: SmokeTest, service: Service) -> bool:
    if test.status >= 500:
        return False
    return test.method == "GET" or (service.bench is not None and test.path == service.bench.path)
