"""Around a rollout: the webhooks, its report, and what may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opsctl import deploy
from opsctl.errors import OpsctlError, WaitingForPerson
from opsctl.model import Json
from opsctl.notify import NOTHING_SENT, Event, Sending, begin
from opsctl.reader import Reader
from opsctl.redact import Redactor
from opsctl.rollout import Progress

ROLLOUTS_KEPT = 500
"""Rollouts that the journal keeps at least: they say which releases may be gone back to."""


def tell_started(rollout: deploy.Rollout) -> Sending:
    """Tell that a rollout begins: once, before its first step, which does not wait for it."""
    try:
        if any(record.kind == "began" for record in rollout.journal.last().records):
            return NOTHING_SENT
        return _begin(rollout, "started", deploy.read(rollout.journal), "")
    except Exception as error:  # noqa: BLE001  (a webhook may not hold a rollout up)
        _warn(rollout, "started", error)
        return NOTHING_SENT


def finish(look: Reader, rollout: deploy.Rollout, progress: Progress, started: Sending) -> None:
    """Tell, report, prune. The rollout is closed already: a failure here is only a warning."""
    assert progress.closed is not None
    event: Event = "failed" if progress.closed["exit_code"] else "finished"
    deliveries = [*_results(rollout, started), *tell(rollout, event, progress)]
    for after in (
        lambda: write_report(look, rollout, progress, deliveries),
        lambda: _prune(look, rollout),
    ):
        try:
            after()
        except Exception as error:  # noqa: BLE001  (nothing here may change how it ended)
            name = "" if isinstance(error, OpsctlError) else f"{type(error).__name__}: "
            rollout.scene.console.warn(f"after the rollout: {name}{error}")


def tell(rollout: deploy.Rollout, event: Event, progress: Progress, reason: str = "") -> list[Json]:
    """Send an event to the webhooks; how each of them went. Raises nothing."""
    try:
        sending = _begin(rollout, event, progress, reason)
    except Exception as error:  # noqa: BLE001  (nor change how it ends)
        _warn(rollout, event, error)
        return []
    return _results(rollout, sending)


def tell_waiting(rollout: deploy.Rollout, error: OpsctlError, started: Sending) -> None:
    """Tell that a person is waited for."""
    if isinstance(error, WaitingForPerson):
        _results(rollout, started)
        tell(rollout, "waiting", deploy.read(rollout.journal), str(error))


def _begin(rollout: deploy.Rollout, event: Event, progress: Progress, reason: str) -> Sending:
    project = rollout.scene.project
    closed = progress.closed or {}
    payload: Json = {
        "service": project.service_name,
        "environment": project.environment,
        "rollout": progress.rollout,
        "op": progress.op,
        "release": progress.candidate,
        "base": progress.base,
        "actor": rollout.scene.actor,
        "outcome": closed.get("outcome", "open"),
        "exit_code": closed.get("exit_code"),
        "serving_release": closed.get("serving_release"),
        "reason": closed.get("reason", reason),
    }
    redactor = rollout.scene.console.redact
    body: Any = redactor.json(payload) if redactor else payload
    return begin(project.service.notifications, event, body, project.root)


def _results(rollout: deploy.Rollout, sending: Sending) -> list[Json]:
    deliveries = sending.results()
    for delivery in deliveries:
        if delivery.warning:
            rollout.scene.console.warn(delivery.warning)
    return [delivery.to_dict() for delivery in deliveries]


def _warn(rollout: deploy.Rollout, event: Event, error: Exception) -> None:
    # Its text may hold the whole URL, which is a credential of chat hooks.
    rollout.scene.console.warn(f"webhooks of {event} were not sent: {type(error).__name__}")


def write_report(
    look: Reader, rollout: deploy.Rollout, progress: Progress, deliveries: list[Json]
) -> Path:
    """Write the rollout's report; returns the text's path."""
    from opsctl import report
    from opsctl.report_content import RolloutRecords

    project, store = rollout.scene.project, look.store
    segment = look.journal.read(progress.rollout)
    known = {release.name for release in store.list()}
    base = progress.base if progress.base in known else None
    new = progress.candidate in known
    records = RolloutRecords(
        number=progress.rollout,
        records=[record.to_dict() for record in segment.records],
        difference=store.difference(base, progress.candidate) if new else None,
        notifications=deliveries,
        warnings=rollout.scene.console.warnings,
    )
    redactor = rollout.scene.console.redact or Redactor({})
    folder = rollout.scene.artifacts.parent
    written = report.write_report(folder, records, redactor, keep=project.service.retention.reports)
    return written.text


def _prune(look: Reader, rollout: deploy.Rollout) -> None:
    from opsctl.retention import disposable

    retention = rollout.scene.project.service.retention
    for name in disposable(look, retention.releases):
        look.store.remove(name)
    look.journal.prune(max(retention.reports, ROLLOUTS_KEPT))
