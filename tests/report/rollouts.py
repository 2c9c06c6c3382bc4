"""Reports of every kind of rollout, for the tests of their pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opsctl.bench.report import Verdict
from opsctl.report import Written
from tests.report.measured import first_deploy, measured, with_values
from tests.report_records import DIFFERENCE, PLAN, Records, deployed, rolled_back, write

Page = tuple[Written, Any]
"""What was written, and the report as JSON."""

WEBHOOK = {
    "to": "chat.example",
    "event": "finished",
    "tries": 3,
    "status": 500,
    "warning": "webhook to chat.example failed: status 500",
    "ok": False,
}


def written(
    folder: Path, records: Records, gates: Sequence[dict[str, Any]] = (), **more: Any
) -> Page:
    """Write the report of a rollout whose steps left these gates."""
    for number, gate in enumerate(gates, 1):
        path = folder / "0007" / f"gate-{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(gate))
    result = write(folder, records, **more)
    return result, json.loads(result.json.read_text())


def a_deploy(folder: Path) -> Page:
    """Passed its gate; a probe failed while the traffic moved, and a webhook."""
    extra = {"difference": DIFFERENCE, "notifications": [WEBHOOK], "warnings": ["disk is filling"]}
    return written(folder, deployed(), [measured(30.0)], **extra)


def a_failed_gate(folder: Path) -> Page:
    """Failed its gate twice and was rolled back."""
    records = Records().opened().step(0, {}).step(1, {})
    records.add("began", step=PLAN[2])
    error = {
        "type": "GateFailed",
        "exit_code": 14,
        "what": "the benchmark gate failed",
        "why": "the candidate is worse in p50 of batch size 1",
        "next_step": "Make it faster, or widen gate.tolerated_p50_percent",
    }
    records.add("failed", step="gate", error=error)
    gates = [measured(12.0, effect=1.2, errors_each=30) for _ in range(2)]
    reason = "gate failed: the candidate is worse in p50 of batch size 1"
    return written(folder, records.closed("rolled_back", 10, reason), gates)


def values_that_got_worse(folder: Path) -> Page:
    """As fast as before, but a value that Prometheus has got worse."""
    records = Records().opened().step(0, {}).step(1, {})
    reason = "gate failed: the candidate is worse in memory (+60.0%)"
    return written(folder, records.closed("rolled_back", 10, reason), [with_values(30.0)])


def an_undecided_gate(folder: Path) -> Page:
    """The machine was too busy to decide anything."""
    records = Records().opened().step(0, {})
    busy = Verdict("inconclusive", "environment", "the machine is too busy")
    closed = records.closed("rolled_back", 10, "gate failed: the machine is too busy")
    return written(folder, closed, [measured(5.0, verdict=busy)])


def without_a_gate(folder: Path) -> Page:
    """Failed its smoke tests."""
    return written(folder, rolled_back())


def a_first_deploy(folder: Path) -> Page:
    """Nothing served before."""
    records = Records().opened(base=None).step(0, {}).step(2, {})
    return written(folder, records.closed("deployed", 0, "all steps passed"), [first_deploy()])


def a_refused_one(folder: Path) -> Page:
    """Preflight said no."""
    records = Records().opened()
    records.add("began", step=PLAN[0])
    error = {
        "type": "PreflightFailed",
        "exit_code": 4,
        "what": "the disk is full",
        "why": "3 MB are free",
        "next_step": "Free some space",
    }
    records.add("failed", step="build", error=error)
    return written(folder, records.closed("refused", 4, "the disk is full: 3 MB are free"))


def an_open_one(folder: Path) -> Page:
    """Waits for a person."""
    records = Records().opened().step(0, {})
    records.add("began", step=PLAN[4])
    records.add("waiting", step="promote", reason="approval is asked for")
    records.add("requested", id="2", request="guard", by="guard", reason="2 % errors")
    return written(folder, records)


def one_just_begun(folder: Path) -> Page:
    """Cut after its first record."""
    return written(folder, Records().opened())


def one_in_pieces(folder: Path) -> Page:
    """Stopped, taken over and aborted."""
    records = Records().opened()
    records.add("began", step=PLAN[0])
    records.add("interrupted", signal=15, why="stopped by signal 15")
    records.epoch = 4
    records.step(0, {})
    records.add("requested", id="1", request="abort", by="bob", reason="wrong day")
    return written(folder, records.closed("aborted", 23, "abort by bob: wrong day"))


KINDS: tuple[Callable[[Path], Page], ...] = (
    a_deploy,
    a_failed_gate,
    values_that_got_worse,
    an_undecided_gate,
    without_a_gate,
    a_first_deploy,
    a_refused_one,
    an_open_one,
    one_just_begun,
    one_in_pieces,
)
