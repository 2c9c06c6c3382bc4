"""The benchmark gate: open-loop load, sequential statistics, a verdict.

Numeric libraries are imported only when something is measured.
"""

from __future__ import annotations

from collections.abc import Callable

from opsctl.bench.report import GateReport, GateRequest

__all__ = ["GateReport", "GateRequest", "run_gate"]


def run_gate(
    request: GateRequest, *, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> GateReport:
    """See `opsctl.bench.run.run_gate`."""
    from opsctl.bench import run

    return run.run_gate(request, tell=tell, interrupt=interrupt)
