"""The commands that steer a service: what a deploy would do, and what changes it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING

from opsctl.cli_project import looking, opened, options, usage_error, wish
from opsctl.commands.outcome import Outcome

if TYPE_CHECKING:
    from opsctl.console import Console


def plan(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`plan`."""
    from opsctl.commands import project, wave

    exit_code = getattr(arguments, "exit_code", False)
    if wave.is_wave(arguments.environment, arguments.service):
        each = partial(project.plan, exit_code=exit_code)
        return wave.plan(wish(arguments), each)
    return project.plan(opened(arguments, console), exit_code=exit_code)


def deploy(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`deploy`."""
    from opsctl.commands import rollout, wave

    if arguments.dry_run:
        return plan(arguments, console)
    if wave.is_wave(arguments.environment, arguments.service):
        return wave.deploy(wish(arguments), console)
    if arguments.soak is not None:
        usage_error("--soak is the time between environments, and there is one: say -e A,B")
    return rollout.deploy(opened(arguments, console), console, options(arguments))


def resume(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`resume`."""
    from opsctl.commands import previews, rollout

    project = opened(arguments, console)
    if arguments.dry_run:
        return previews.resume(project)
    return rollout.resume(project, console, options(arguments))


def rollback(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`rollback`."""
    from opsctl.commands.rollback import rollback

    preview = arguments.preview or arguments.dry_run
    look = looking(arguments, console)
    return rollback(look, console, options(arguments), arguments.release, preview=preview)


def abort(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`abort`."""
    from opsctl.commands import previews, rollout

    project = opened(arguments, console)
    if arguments.dry_run:
        return previews.abort(project)
    return rollout.abort(project, console, options(arguments), arguments.reason)


def pause(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`pause`."""
    from opsctl.commands import rollout

    return rollout.pause(opened(arguments, console), arguments.reason)


def approve(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`approve`."""
    from opsctl.commands import rollout

    return rollout.approve(
        opened(arguments, console), console, options(arguments), arguments.reason
    )


def wait(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`wait`."""
    from opsctl.commands import rollout

    return rollout.wait(opened(arguments, console), arguments.timeout)


def down(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`down`."""
    from opsctl.commands import adopt as adopting
    from opsctl.commands import previews, rollout

    project = opened(arguments, console)
    if arguments.dry_run:
        return previews.down(project)
    if arguments.keep:
        return adopting.let_go(project, console, options(arguments))
    if not arguments.yes:
        _confirm(f"stop {project.service_name} and remove all of its state?")
    return rollout.down(project, console, options(arguments))


def adopt(arguments: argparse.Namespace, console: Console) -> Outcome:
    """`adopt`."""
    from opsctl.commands import adopt as adopting

    project = opened(arguments, console)
    if arguments.dry_run:
        return adopting.preview(project, arguments.name)
    return adopting.adopt(project, console, options(arguments), arguments.name)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        usage_error(f"{question} Say --yes: nobody can be asked here")
    answer = ""
    with contextlib.suppress(EOFError):
        answer = input(f"{question} [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        usage_error("not confirmed; nothing was done")
