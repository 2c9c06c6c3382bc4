"""rollback: back to a release that was proved, whatever is open now."""

from __future__ import annotations

from opsctl.commands.chosen import check_kept
from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.rollout import (
    TAKEN_BACK,
    ended,
    finish,
    make_way,
    plan_request,
    withdraw,
)
from opsctl.console import Console
from opsctl.errors import ConfigError
from opsctl.plan import Step, plan_rollback
from opsctl.reader import Reader
from opsctl.rollout import Progress, rollback_target, was_proved
from opsctl.session import Options, in_charge


def rollback(
    look: Reader, console: Console, options: Options, release: str | None, *, preview: bool
) -> Outcome:
    """Give the traffic back to `release`, by default the last one that was proved.

    An open deploy is taken back first; that is all, unless another release was named.
    """
    if release is not None:
        check_kept(look, release)
        _check_proved(look, release)
    going = look.open_progress()
    if preview:
        return _rollback_preview(look, going, release)
    leaving = _leaving(look, going)
    if going and going.op == "deploy":
        outcome = withdraw(look, console, options, "rollback", "opsctl rollback")
        there = release in (None, outcome.data["serving_release"])
        if outcome.exit_code or (there and outcome.data["outcome"] in TAKEN_BACK):
            return outcome
    with in_charge(look, console, "rollback", options) as session:
        going = session.read.open_progress()
        if going:
            done = make_way(session, going)
            if done.op == "rollback" and release in (None, done.candidate):
                return ended(session, done)
        serving = session.read.last_state().serving_release
        if serving and (release == serving if release else serving != leaving):
            text = f"unchanged: {serving} serves already"
            return simple("unchanged", text, serving_release=serving, release=serving)
        target, serving = choose_rollback(session.read, release, serving)
        session.open("rollback", target, serving, _steps_back(session.read, target))
        return finish(session)


def _leaving(look: Reader, going: Progress | None) -> str | None:
    """The release that somebody wants to leave who says `rollback` now."""
    if going and going.op in ("deploy", "rollback"):
        return going.candidate if going.op == "deploy" else going.base
    return look.last_state().serving_release


def _steps_back(look: Reader, target: str) -> tuple[Step, ...]:
    state = look.last_state().without_baselines()
    return plan_rollback(plan_request(look.project, target, state.serving_release, state))


def _rollback_preview(look: Reader, going: Progress | None, release: str | None) -> Outcome:
    """What a rollback would do, in the same order."""
    lines: list[str] = []
    serving = look.last_state().serving_release
    if going and going.op == "deploy":
        serving = going.base
        lines.append(f"would take {going.candidate} back; then {serving or 'nothing'} serves")
    elif going and going.op == "rollback":
        serving = going.candidate
        lines.append(f"would go on with rollout {going.rollout}, from {going.base} to {serving}")
    if release == serving or (release is None and lines):
        lines = lines or [f"unchanged: {serving} serves already"]
        return simple("preview", "\n".join(lines), release=serving, serving_release=serving)
    target, leaving = choose_rollback(look, release, serving)
    lines.append(f"would go from {leaving} to {target}:")
    lines += [f"  {step.title}" for step in _steps_back(look, target)]
    return simple("preview", "\n".join(lines), release=target, serving_release=leaving)


def choose_rollback(look: Reader, release: str | None, serving: str | None) -> tuple[str, str]:
    """The release to go to, and the one that is left. Raises ConfigError when there is none."""
    if serving is None:
        raise ConfigError(
            "cannot roll back: nothing serves", next_step="Run: opsctl deploy, or opsctl resume"
        )
    existing = [r.name for r in look.store.list()]
    target = release or rollback_target(look.newest_first(), serving, existing)
    if target is None:
        raise ConfigError(
            "cannot roll back: no proved release is left besides the one that serves",
            next_step="See: opsctl releases list",
        )
    return target, serving


def _check_proved(look: Reader, release: str) -> None:
    """Raises ConfigError when `release` never had all traffic after its trials."""
    if not was_proved(look.newest_first(), release):
        raise ConfigError(
            f"cannot roll back to {release}: it was never proved",
            why="it failed its trials, or was taken back before it had all traffic",
            next_step="Deploy its content again, through the trials. See: opsctl releases list",
        )
