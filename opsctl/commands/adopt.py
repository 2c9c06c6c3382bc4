"""adopt: a service that runs already becomes opsctl's; `down --keep` is the way out."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.rollout import NOTHING_TO_STOP, finish
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import ConfigError
from opsctl.plan import plan_state
from opsctl.reader import Reader, reader
from opsctl.release import Release
from opsctl.secrets import SecretStore, resolve_secrets
from opsctl.session import Options, Session, in_charge
from opsctl.targets.target import Handover


def adopt(project: Project, console: Console, options: Options, name: str) -> Outcome:
    """Take over what runs as `name`; nothing is restarted. It can be said again after a crash.

    Raises PreflightRefused when it can't be taken as it is.
    """
    handover = _handover(reader(project))
    with in_charge(project, console, "adopt", options) as session:
        going, serving = session.read.open_progress(), session.read.last_state().serving_release
        if going and going.op != "adopt":
            raise ConfigError(
                f"rollout {going.rollout} ({going.op}) is open",
                next_step="Run: opsctl abort or opsctl resume",
            )
        if going:
            return finish(session)
        if serving:
            text = f"unchanged: {serving} serves already"
            return simple("unchanged", text, serving_release=serving, release=serving)
        for other in handover.find(name):
            console.warn(f"{other} is left alone; take it away when it is needed no more")
        release = _release(session)
        state = handover.take(name, release.name, release.launch.image)
        plan = plan_state(state, f"take over {name} as {release.name}")
        session.open("adopt", release.name, release.name, plan, before=state.to_dict())
        return finish(session)


def preview(project: Project, name: str) -> Outcome:
    """What `adopt` would do."""
    look = reader(project)
    left = list(_handover(look).find(name))
    alone = f"; {', '.join(left)} would be left alone" if left else ""
    text = f"would take over {name} as {look.store.next_name()}, without a restart{alone}"
    return simple("preview", text, left_alone=left)


def let_go(project: Project, console: Console, options: Options) -> Outcome:
    """Forget the service and let what serves run on (`down --keep`)."""
    look = reader(project)
    handover = _handover(look)
    if not look.storage.exists():
        return simple("nothing_to_stop", NOTHING_TO_STOP)
    with in_charge(project, console, "down", options) as session:
        going = session.read.open_progress()
        if going:
            raise ConfigError(
                f"rollout {going.rollout} ({going.op}) is open",
                next_step="Run: opsctl abort or opsctl resume, then the same again",
            )
        segment = session.read.journal.last()
        left = handover.give_back(segment.records[-1].epoch + 1 if segment.records else 1)
    look.storage.destroy()
    said = ", ".join(left) or "nothing"
    return simple("kept", f"{said} runs on; opsctl knows {project.service_name} no more", left=left)


def _handover(look: Reader) -> Handover:
    if look.place.handover is None:
        raise ConfigError(
            f"target {look.project.target} neither takes over what runs nor gives it back",
            why="only target kubernetes does",
            next_step="Deploy instead: opsctl deploy",
        )
    return look.place.handover()


def _release(session: Session) -> Release:
    """The release that opsctl.yaml tells of, made as a deploy would."""
    project, read = session.project, session.read
    interrupt = session.attendance.interrupt_unasked
    names = [release.name for release in read.store.list()]
    name = names[-1] if names else read.store.next_name()
    values = resolve_secrets(project.service.app.secrets, project.root, interrupt)
    SecretStore(read.storage).save(name, values)
    return read.store.build(
        project, name, actor=session.actor, tell=session.console.tell, interrupt=interrupt
    )
