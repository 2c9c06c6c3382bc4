"""deploy, resume, abort, pause, approve, wait, down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opsctl.commands.change import change_to
from opsctl.commands.outcome import Outcome, simple
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import ConfigError, OpsctlError, TimedOut
from opsctl.inbox import RequestKind
from opsctl.model import DesiredState, Guard
from opsctl.plan import PlanRequest, Step, plan_deploy, plan_state
from opsctl.reader import Reader, actor_name, reader, report_folder
from opsctl.rollout import Progress
from opsctl.session import Options, Session, in_charge

WITHDRAW_LIMIT_S = 300.0
"""How long a holder may take to give the candidate back before the asker stops waiting."""

NOTHING_TO_RESUME = "nothing to resume: nothing was deployed"
NOTHING_TO_ABORT = "nothing to abort: no rollout is open"
NOTHING_TO_STOP = "nothing to stop: nothing was ever deployed here"

TAKEN_BACK = ("aborted", "rolled_back")
"""Outcomes of a rollout whose candidate has been taken back."""

TOO_LATE = 4
"""Exit code of an abort that was refused because the rollout had ended; nothing was touched."""

STILL_S = 10.0
"""A holder whose heartbeat stands still for that long is frozen."""

PASS_BY_S = 15.0
"""How long to wait for the lock of one who is frozen or is just ending."""

WATCH_S = 0.2
"""How often a command that waits for another one looks at the journal."""


def deploy(project: Project, console: Console, options: Options) -> Outcome:
    """Take the service from its sources to safely serving."""
    with in_charge(project, console, "deploy", options) as session:
        # A request that waits is for the open rollout, which takes it when it goes on.
        interrupt = session.attendance.interrupt_unasked
        digest = session.read.store.content_digest(project, interrupt)
        going = session.read.open_progress()
        if going and continues(session, going, digest):
            console.tell(f"going on with rollout {going.rollout} ({going.candidate})")
            if going.paused or going.waiting:
                session.ask("resume", "deploy")
            return finish(session)
        if going:
            make_way(session, going)
        return _deploy_anew(session, digest)


def make_way(session: Session, going: Progress) -> Progress:
    """End the open rollout: a candidate is taken back, all else goes on to where it was going.

    (Taking a rollback back would give the traffic to the release that somebody wanted to leave.)
    """
    if going.op == "deploy" and not going.undoing:
        session.console.tell(
            f"rollout {going.rollout} is superseded; taking {going.candidate} back"
        )
        session.ask("supersede", f"another {session.command}")
    else:
        session.console.tell(f"first, rollout {going.rollout} ({going.op}) goes on to its end")
        if going.paused or going.waiting:
            session.ask("resume", session.command)
    return session.carry_on()


def continues(session: Session, going: Progress, digest: str) -> bool:
    """Whether the open rollout is on its way to the content that is asked for now."""
    segment = session.read.journal.last()
    opened = segment.records[0].data
    return going.op == "deploy" and not going.undoing and opened.get("content") == digest


def _deploy_anew(session: Session, digest: str) -> Outcome:
    project, look = session.project, session.read
    change = change_to(look, digest)
    if change.op == "deploy":
        candidate, serving = look.store.next_name(), change.serving
        request = plan_request(project, candidate, serving, change.state)
        session.open("deploy", candidate, serving, plan_deploy(request), content=digest)
        return finish(session)
    if change.op:
        return _put_state(session, change.op, change.state, change.title)
    serving = change.serving
    observed = look.target.observe()
    look.target.apply(observed.desired, observed.stamp, Guard(observed.desired, unattended=True))
    text = f"unchanged: {serving} serves already"
    return simple("unchanged", text, serving_release=serving, release=serving)


def _put_state(session: Session, op: str, state: DesiredState, title: str) -> Outcome:
    serving = state.serving_release or ""
    session.open(op, serving, serving or None, plan_state(state, title))
    return finish(session)


def plan_request(
    project: Project, candidate: str, base: str | None, before: DesiredState
) -> PlanRequest:
    """What a plan is made from: settings of the project, and what runs."""
    service = project.service
    return PlanRequest(
        candidate=candidate,
        base=base,
        before=before,
        replicas=service.replicas,
        strategy=service.strategy,
        smoke=bool(service.smoke),
        gated=service.bench is not None and service.gate.enabled,
        bench_cpus=bench_cpus(),
    )


def bench_cpus() -> tuple[int, ...]:
    """The CPU that both arms of a benchmark share; the load generator gets the others."""
    import os

    usable = sorted(os.sched_getaffinity(0))
    return (usable[-1],) if len(usable) > 1 else ()


def of_rollout(progress: Progress, report: str = "") -> Outcome:
    """The outcome of a closed rollout."""
    assert progress.closed is not None
    closed = progress.closed
    serving = closed["serving_release"] or "nothing"
    data = {
        "outcome": closed["outcome"],
        "exit_code": closed["exit_code"],
        "serving_release": closed["serving_release"],
        "release": progress.candidate,
        "base": progress.base,
        "rollout": progress.rollout,
        "reason": closed["reason"],
        "next_step": closed.get("next_step", ""),
        "journal_ms": closed.get("journal_ms"),
        "report": report,
    }
    restored = progress.op == "restore" and closed["outcome"] == "deployed"
    done = "brought back" if restored else closed["outcome"]
    lines = [f"{done}: {serving} serves (rollout {progress.rollout})"]
    if closed["exit_code"]:
        lines.append(f"because {closed['reason']}")
    if closed.get("next_step"):
        lines.append(f"next: {closed['next_step']}")
    if report:
        page = Path(report).with_suffix(".html")
        lines += [f"report: {report}", *([f"page: {page}"] if page.exists() else [])]
    return Outcome(closed["exit_code"], data, "\n".join(lines))


def finish(session: Session) -> Outcome:
    """Carry the open rollout to its end."""
    return ended(session, session.carry_on())


def ended(session: Session, progress: Progress) -> Outcome:
    """The outcome of a rollout that was carried to its end here."""
    report = report_folder(session.project, progress.rollout).with_suffix(".txt")
    return of_rollout(progress, str(report) if report.exists() else "")


def plan(project: Project) -> tuple[tuple[Step, ...], Reader]:
    """The steps that a deploy would take now, without touching anything."""
    look = reader(project)
    change = change_to(look, look.store.content_digest(project))
    if change.op == "deploy":
        candidate = look.store.next_name()
        return plan_deploy(plan_request(project, candidate, change.serving, change.state)), look
    return plan_state(change.state, change.title) if change.op else (), look


def resume(project: Project, console: Console, options: Options) -> Outcome:
    """Go on with the open rollout; without one, bring back what served."""
    with in_charge(project, console, "resume", options) as session:
        going = session.read.open_progress()
        if going:
            if going.paused or going.waiting:
                session.ask("resume")
            return finish(session)
        state = session.read.last_state().without_baselines()
        if not state.serving_release:
            return simple("nothing_to_resume", NOTHING_TO_RESUME)
        return _put_state(session, "restore", state, f"bring back {state.serving_release}")


def abort(project: Project, console: Console, options: Options, reason: str) -> Outcome:
    """Take the candidate of the open rollout back."""
    outcome = withdraw(reader(project), console, options, "abort", reason)
    if outcome.data["outcome"] not in ("deployed", "rolled_back_on_request"):
        return outcome
    serving = outcome.data["serving_release"]
    text = f"too late to abort: {serving} serves already. To go back: opsctl rollback"
    return simple("too_late", text, TOO_LATE, serving_release=serving)


def withdraw(
    look: Reader, console: Console, options: Options, request: RequestKind, reason: str
) -> Outcome:
    """Ask the holder to take the candidate back and wait for it; do it here when nobody holds."""
    going = look.open_progress()
    if going is None:
        return simple("nothing_to_abort", NOTHING_TO_ABORT)
    look.inbox.put(request, by=actor_name(), reason=reason, clock=look.clock)
    if not _heard(look, console, going.rollout, options.timeout_s or WITHDRAW_LIMIT_S):
        # Nobody holds, or who holds stands still: it is passed by, and done here.
        options = replace(options, lock_wait_s=max(options.lock_wait_s, PASS_BY_S))
        with in_charge(look, console, request, options) as session:
            if session.read.open_progress():
                return _withdrawn(session.carry_on())
    return _withdrawn(_closed(look, going.rollout) or look.rollouts()[-1])


def _heard(look: Reader, console: Console, rollout: int, limit_s: float) -> bool:
    """Wait while somebody is at work on the rollout; whether it was closed.

    Raises TimedOut when it is not within `limit_s` though its holder moves.
    """
    deadline = look.clock.monotonic() + limit_s
    beat, since = -1, look.clock.monotonic()
    while (holder := look.storage.holder()) and not _closed(look, rollout):
        now = look.clock.monotonic()
        if beat == -1:
            console.tell(f"asked {holder.where} ({holder.actor}, {holder.command}); waiting for it")
        if holder.beat != beat:
            beat, since = holder.beat, now
        elif now - since > STILL_S:
            console.tell(f"{holder.where} stands still; going on without it")
            return False
        if now > deadline:
            raise TimedOut(
                f"rollout {rollout} did not end yet",
                why="its holder has the request but is still busy",
                next_step="Look with: opsctl status",
            )
        look.clock.sleep(WATCH_S)
    return _closed(look, rollout) is not None


def _withdrawn(progress: Progress) -> Outcome:
    """For the one who asked for it, a candidate taken back is a success."""
    outcome = of_rollout(progress)
    if outcome.data["outcome"] in TAKEN_BACK:
        return outcome._replace(exit_code=0, data={**outcome.data, "exit_code": 0})
    return outcome


def pause(project: Project, reason: str) -> Outcome:
    """Ask the holder to stop after the step it is in."""
    look = reader(project)
    going = look.open_progress()
    if going is None:
        return simple("nothing_to_pause", "nothing to pause: no rollout is open")
    look.inbox.put("pause", by=actor_name(), reason=reason, clock=look.clock)
    return simple("asked", f"rollout {going.rollout} will pause", rollout=going.rollout)


def approve(project: Project, console: Console, options: Options, reason: str) -> Outcome:
    """Approve what the open rollout waits for, and carry it on from here."""
    look = reader(project)
    going = look.open_progress()
    if going is None or not (going.waiting or going.paused):
        raise ConfigError("nothing waits for approval", next_step="See: opsctl status")
    look.inbox.put("approve", by=actor_name(), reason=reason, clock=look.clock)
    if look.storage.holder():
        return simple("approved", f"approved rollout {going.rollout}", rollout=going.rollout)
    with in_charge(project, console, "approve", options) as session:
        return finish(session)


def wait(project: Project, timeout_s: float | None) -> Outcome:
    """Wait until the open rollout is closed; the exit code is the rollout's."""
    look = reader(project)
    segment = look.journal.last()
    if not segment.records:
        return simple("nothing_to_wait_for", "nothing was ever deployed here")
    deadline = None if timeout_s is None else look.clock.monotonic() + timeout_s
    while True:
        done = _closed(look, segment.number)
        if done:
            return of_rollout(done)
        if deadline is not None and look.clock.monotonic() > deadline:
            raise TimedOut(f"rollout {segment.number} is still open", next_step="opsctl status")
        look.clock.sleep(WATCH_S)


def _closed(look: Reader, number: int) -> Progress | None:
    from opsctl.rollout import fold

    segment = look.journal.read(number)
    return fold(segment.records, number) if segment.closed else None


def down(project: Project, console: Console, options: Options) -> Outcome:
    """Stop the service and remove all of its state."""
    look = reader(project)
    if not look.storage.exists():
        return simple("nothing_to_stop", NOTHING_TO_STOP)
    with in_charge(project, console, "down", options, reach=False) as session:
        segment = session.read.journal.last()
        observed = session.read.observed()
        epoch = max(
            segment.records[-1].epoch if segment.records else 0,
            observed.stamp.epoch if observed else 0,
        )
        look.target.down(epoch + 1)
    look.storage.destroy()
    return simple("down", f"{project.service_name} is down and its state is removed")


def serving_release(project: Project) -> str | None:
    """What serves, for an error's last word; None when it can't be told."""
    try:
        look = reader(project)
        observed = look.observed()
        return (observed.desired if observed else look.last_state()).serving_release
    except (OpsctlError, OSError):
        return None
