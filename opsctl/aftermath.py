"""After a rollout: its report, the webhooks, and what may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opsctl import deploy
from opsctl.errors import OpsctlError, WaitingForPerson
from opsctl.model import Json
from opsctl.notify import Event, notify
from opsctl.rollout import Progress

if TYPE_CHECKING:
    from opsctl.session import Session


def finish(session: Session, rollout: deploy.Rollout, progress: Progress) -> None:
    """Report, tell, prune. The rollout is closed already: a failure here is only a warning."""
    assert progress.closed is not None
    console = rollout.scene.console
    event: Event = "failed" if progress.closed["exit_code"] else "finished"
    for action in (_report, _prune):
        try:
            action(session, rollout, progress)
        except (OpsctlError, OSError) as error:
            console.warn(f"after the rollout: {error}")
    tell(rollout, event, progress)


def tell(rollout: deploy.Rollout, event: Event, progress: Progress, reason: str = "") -> None:
    """Send an event to the webhooks."""
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
    clean = rollout.scene.console.redact
    body: Any = clean.json(payload) if clean else payload
    for delivery in notify(project.service.notifications, event, body, project.root):
        if delivery.warning:
            rollout.scene.console.warn(f"webhook {delivery.to}: {delivery.warning}")


def tell_waiting(rollout: deploy.Rollout, error: OpsctlError) -> None:
    """Tell that a person is waited for."""
    if isinstance(error, WaitingForPerson):
        tell(rollout, "waiting", deploy.read(rollout.journal), str(error))


def _report(session: Session, rollout: deploy.Rollout, progress: Progress) -> None:
    from opsctl.report import write_report

    write_report(rollout, progress)  # type: ignore[call-arg,arg-type]


def _prune(session: Session, rollout: deploy.Rollout, progress: Progress) -> None:
    from opsctl.commands.prune import disposable

    retention = rollout.scene.project.service.retention
    for name in disposable(session.read, retention.releases):
        session.read.store.remove(name)
    session.read.journal.prune(retention.reports)
