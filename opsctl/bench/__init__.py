"""The benchmark gate: open-loop load, sequential statistics, a verdict.

Numeric libraries are imported only when something is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsctl.bench.report import (
    BenchReport,
    BenchRequest,
    GateReport,
    GateRequest,
    QueryCheck,
)
from opsctl.config import settings
from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint

if TYPE_CHECKING:
    from opsctl.bench.comparison import Comparison
    from opsctl.bench.history import Trend

__all__ = [
    "BenchReport",
    "BenchRequest",
    "GateReport",
    "GateRequest",
    "QueryCheck",
    "broken",
    "check_grpc",
    "check_prometheus",
    "compare",
    "measure",
    "rounds_in",
    "run_gate",
    "trend",
]


def run_gate(
    request: GateRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> GateReport:
    """See `opsctl.bench.run.run_gate`."""
    from opsctl.bench import run

    return run.run_gate(request, tell=tell, interrupt=interrupt)


def check_prometheus(
    check: QueryCheck, *, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> None:
    """See `opsctl.bench.external_course.check_queries`."""
    from opsctl.bench import external_course

    external_course.check_queries(check, tell=tell, interrupt=interrupt)


def check_grpc(bench: settings.Bench, root: Path, arms: Sequence[Endpoint]) -> None:
    """Before a deploy is begun: raise ConfigError where gRPC can't be spoken, or `arms` (a replica
    of the old release, if one runs) show that the requests can't be sent by it."""
    from opsctl.bench import bodies, grpc_arm

    grpc_arm.require_grpc()
    for arm in arms:
        # An old release that does not answer is no reason not to deploy a new one.
        with suppress(TargetUnreachable):
            bodies.load_bodies(bench, root, grpc_arm.located(arm, bench))


def measure(
    request: BenchRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> BenchReport:
    """See `opsctl.bench.single.measure`."""
    from opsctl.bench import single

    return single.measure(request, tell=tell, interrupt=interrupt)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """See `opsctl.bench.comparison.compare`."""
    from opsctl.bench import comparison

    return comparison.compare(before, after)


def trend(reports: Sequence[Mapping[str, Any]]) -> Trend:
    """See `opsctl.bench.history.trend`."""
    from opsctl.bench import history

    return history.trend(reports)


def broken(report: Mapping[str, Any]) -> str:
    """See `opsctl.bench.outcome.broken`."""
    from opsctl.bench import outcome

    return outcome.broken(report)


def rounds_in(path: Path) -> int | None:
    """See `opsctl.bench.raw.rounds_in`."""
    from opsctl.bench import raw

    return raw.rounds_in(path)
