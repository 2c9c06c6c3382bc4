"""What resume, abort and down would do (`--dry-run`), from the same records, touching nothing."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.rollout import NOTHING_TO_ABORT, NOTHING_TO_RESUME, NOTHING_TO_STOP
from opsctl.config.settings import Project
from opsctl.reader import reader
from opsctl.rollout import next_step


def resume(project: Project) -> Outcome:
    """What `resume` would go on with."""
    look = reader(project)
    going = look.open_progress()
    if going:
        step = next_step(going)
        text = f"would go on with rollout {going.rollout} ({going.op} of {going.candidate})"
        text += f", next: {step.title}" if step else ""
        return simple("preview", text, rollout=going.rollout, release=going.candidate)
    serving = look.last_state().serving_release
    if not serving:
        return simple("nothing_to_resume", NOTHING_TO_RESUME)
    return simple("preview", f"would bring back {serving}", release=serving)


def abort(project: Project) -> Outcome:
    """What `abort` would take back."""
    going = reader(project).open_progress()
    if going is None:
        return simple("nothing_to_abort", NOTHING_TO_ABORT)
    text = f"would take {going.candidate} back; then {going.base or 'nothing'} serves"
    return simple("preview", text, rollout=going.rollout, release=going.candidate)


def down(project: Project) -> Outcome:
    """What `down` would stop and remove."""
    look = reader(project)
    if not look.storage.exists():
        return simple("nothing_to_stop", NOTHING_TO_STOP)
    observed = look.observed()
    running = [share.release for share in observed.desired.shares] if observed else []
    kept = [release.name for release in look.store.list()]
    text = (
        f"would stop {', '.join(running) or 'nothing'} and remove all state of"
        f" {project.service_name}: {len(kept)} releases, {len(look.journal.numbers())} rollouts"
    )
    return simple("preview", text, running=running, releases=kept)
