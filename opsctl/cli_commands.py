"""One function a command: parsed arguments in, outcome out; imports where they are needed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from opsctl import cli_steering as steering
from opsctl.cli_project import load_project, looking, opened, usage_error
from opsctl.commands.outcome import Outcome, simple

if TYPE_CHECKING:
    from collections.abc import Callable

    from opsctl.console import Console

    Command = Callable[[argparse.Namespace, Console], Outcome]


def _init(arguments: argparse.Namespace, console: Console) -> Outcome:
    from pathlib import Path

    from opsctl.scaffold import planned_files, write_project

    if arguments.from_compose:
        from opsctl.commands.from_compose import from_compose

        file, directory = Path(arguments.from_compose), Path(arguments.directory)
        return from_compose(
            file, directory, arguments.service, name=arguments.name, dry_run=arguments.dry_run
        )
    if arguments.dry_run:
        planned = planned_files(Path(arguments.directory), arguments.name)
        lines = [f"would write {path}" for path in planned]
        return simple("dry_run", "\n".join(lines), files=[str(path) for path in planned])

    written = write_project(Path(arguments.directory), arguments.name)
    lines = [f"wrote {path}" for path in written]
    text = "\n".join([*lines, "next: opsctl deploy"])
    return simple("written", text, files=[str(path) for path in written])


def _config(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import project

    return project.config(arguments)


def _diff(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.diff import diff

    return diff(opened(arguments, console))


def _preflight(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.preflight import preflight

    return preflight(opened(arguments, console))


def _build(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.build import build

    return build(
        load_project(arguments),
        console,
        rebuild=arguments.rebuild,
        network=not arguments.no_network,
        dry_run=arguments.dry_run,
    )


def _verify(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.verify import verify

    return verify(load_project(arguments), console, arguments.image)


def _status(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.status(looking(arguments, console))


def _history(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.history(opened(arguments, console), arguments.limit)


def _logs(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    project = opened(arguments, console)
    if arguments.output == "json" and arguments.follow:
        usage_error("logs --follow never ends, so it is no one object. Say -o ndjson, or text")
    found = inspect.logs(project, arguments.release, arguments.lines, arguments.follow)
    if arguments.output == "json":
        return simple("ok", "", lines=list(found))
    for line in found:
        console.line(line)
    return simple("ok", "")


def _health(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.health(opened(arguments, console), console, arguments.watched_s)


def _smoke(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.smoke(opened(arguments, console), arguments.release)


def _bench(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import bench

    project = opened(arguments, console)
    if arguments.action == "compare":
        return bench.compare(project, arguments.a, arguments.b)
    if arguments.action == "trend":
        return bench.trend(project)
    if arguments.action == "record":
        from opsctl.commands.record import record

        return record(project, console, arguments)
    return bench.run(project, console, arguments.release)


def _releases(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect
    from opsctl.commands.prune import prune

    project = opened(arguments, console)
    if arguments.action == "prune":
        return prune(project, dry_run=arguments.dry_run)
    if arguments.action == "show":
        return inspect.release(project, arguments.release)
    return inspect.releases(project)


def _lock(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    project = opened(arguments, console)
    if arguments.action == "release":
        return inspect.lock_release(project, force=arguments.force)
    return inspect.lock_status(project)


def _audit(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.audit(opened(arguments, console))


def _kernels(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.kernels import kernels

    return kernels(arguments)


def _model(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.model import model

    return model(arguments)


def _profile(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.profile import profile

    return profile(arguments)


def _render(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.render import render

    return render(load_project(arguments), arguments)


def _completion(arguments: argparse.Namespace, console: Console) -> Outcome:
    import shtab

    from opsctl.cli_parser import build_parser

    script = shtab.complete(build_parser(), shell=arguments.shell)
    return simple("ok", script, script=script)


def _version(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl import __version__

    return simple("ok", f"opsctl {__version__}", version=__version__)


COMMANDS: dict[str, Command] = {
    "init": _init,
    "config": _config,
    "preflight": _preflight,
    "diff": _diff,
    "plan": steering.plan,
    "build": _build,
    "verify": _verify,
    "deploy": steering.deploy,
    "status": _status,
    "history": _history,
    "wait": steering.wait,
    "logs": _logs,
    "smoke": _smoke,
    "health": _health,
    "bench": _bench,
    "approve": steering.approve,
    "pause": steering.pause,
    "resume": steering.resume,
    "abort": steering.abort,
    "rollback": steering.rollback,
    "down": steering.down,
    "adopt": steering.adopt,
    "releases": _releases,
    "lock": _lock,
    "audit": _audit,
    "kernels": _kernels,
    "model": _model,
    "profile": _profile,
    "render": _render,
    "completion": _completion,
    "version": _version,
}
