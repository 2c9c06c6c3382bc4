"""One function a command: parsed arguments in, outcome out; imports where they are needed."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, NoReturn

from opsctl.commands.outcome import Outcome, simple
from opsctl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opsctl.config.settings import Project
    from opsctl.console import Console
    from opsctl.session import Options

    Command = Callable[[argparse.Namespace, Console], Outcome]


def load_project(arguments: argparse.Namespace) -> Project:
    """The project that the global options choose."""
    from pathlib import Path

    from opsctl.config.load import load

    return load(
        Path(arguments.config) if arguments.config else None,
        environment=arguments.environment,
        service=arguments.service,
    )


def _project(arguments: argparse.Namespace, console: Console) -> Project:
    """The project; from now on no output shows a secret that one of its releases has.

    An application may have shouted it into its log, whose last lines many commands show.
    """
    from opsctl.errors import TargetUnreachable
    from opsctl.secrets import SecretStore
    from opsctl.targets.places import open_place

    project = load_project(arguments)
    secrets: dict[str, str] = {}
    with contextlib.suppress(TargetUnreachable):  # the command itself will say so
        secrets = SecretStore(open_place(project).storage).everything()
    if secrets:
        from opsctl.redact import Redactor

        known = console.redact.secrets if console.redact else {}
        # Releases of several environments have the same names, and other values.
        others = {f"another {name}": value for name, value in known.items()}
        console.redact = Redactor({**others, **secrets})
    return project


def usage_error(message: str) -> NoReturn:
    """Refuse a command line."""
    raise ConfigError(message, next_step="See: opsctl --help")


def _options(arguments: argparse.Namespace) -> Options:
    from opsctl.session import Options

    return Options(timeout_s=arguments.timeout, lock_wait_s=arguments.lock_wait)


def _init(arguments: argparse.Namespace, console: Console) -> Outcome:
    from pathlib import Path

    from opsctl.scaffold import planned_files, write_project

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

    return diff(_project(arguments, console))


def _preflight(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.preflight import preflight

    return preflight(_project(arguments, console))


def _plan(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import project

    return project.plan(
        _project(arguments, console), exit_code=getattr(arguments, "exit_code", False)
    )


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


def _deploy(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import rollout

    if "," in (arguments.environment or ""):
        return _deploy_waves(arguments, console)
    if arguments.soak:
        usage_error("--soak is the time between environments, and there is one: -e A,B")
    project = _project(arguments, console)
    if arguments.dry_run:
        return _plan(arguments, console)
    return rollout.deploy(project, console, _options(arguments))


def _deploy_waves(arguments: argparse.Namespace, console: Console) -> Outcome:
    """All environments are read, and must be right, before the first is touched."""
    from opsctl.commands import waves

    names = arguments.environment.split(",")
    if len(set(names)) != len(names) or not all(names):
        usage_error(f"-e {arguments.environment}: one name after the other, each once")
    chosen = [argparse.Namespace(**{**vars(arguments), "environment": name}) for name in names]
    for one in chosen:
        load_project(one)
    if arguments.dry_run:
        plans = [_plan(one, console) for one in chosen]
        text = "\n".join(f"{name}:\n{plan.text}" for name, plan in zip(names, plans, strict=True))
        rows = [{"environment": n, **p.data} for n, p in zip(names, plans, strict=True)]
        return simple("plan", text, environments=rows, serving_release=None)
    projects = [_project(one, console) for one in chosen]
    return waves.deploy(waves.Waves(projects, arguments.soak), console, _options(arguments))


def _resume(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import previews, rollout

    project = _project(arguments, console)
    if arguments.dry_run:
        return previews.resume(project)
    return rollout.resume(project, console, _options(arguments))


def _rollback(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands.rollback import rollback

    preview = arguments.preview or arguments.dry_run
    project = _project(arguments, console)
    return rollback(project, console, _options(arguments), arguments.release, preview=preview)


def _abort(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import previews, rollout

    project = _project(arguments, console)
    if arguments.dry_run:
        return previews.abort(project)
    return rollout.abort(project, console, _options(arguments), arguments.reason)


def _pause(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import rollout

    return rollout.pause(_project(arguments, console), arguments.reason)


def _approve(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import rollout

    return rollout.approve(
        _project(arguments, console), console, _options(arguments), arguments.reason
    )


def _wait(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import rollout

    return rollout.wait(_project(arguments, console), arguments.timeout)


def _down(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import previews, rollout

    project = _project(arguments, console)
    if arguments.dry_run:
        return previews.down(project)
    if not arguments.yes:
        _confirm(f"stop {project.service_name} and remove all of its state?")
    return rollout.down(project, console, _options(arguments))


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        usage_error(f"{question} Say --yes: nobody can be asked here")
    answer = ""
    with contextlib.suppress(EOFError):
        answer = input(f"{question} [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        usage_error("not confirmed; nothing was done")


def _status(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.status(_project(arguments, console))


def _history(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.history(_project(arguments, console), arguments.limit)


def _logs(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    project = _project(arguments, console)
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

    return inspect.health(_project(arguments, console))


def _smoke(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.smoke(_project(arguments, console), arguments.release)


def _bench(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import bench

    project = _project(arguments, console)
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

    project = _project(arguments, console)
    if arguments.action == "prune":
        return prune(project, dry_run=arguments.dry_run)
    if arguments.action == "show":
        return inspect.release(project, arguments.release)
    return inspect.releases(project)


def _lock(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    project = _project(arguments, console)
    if arguments.action == "release":
        return inspect.lock_release(project, force=arguments.force)
    return inspect.lock_status(project)


def _audit(arguments: argparse.Namespace, console: Console) -> Outcome:
    from opsctl.commands import inspect

    return inspect.audit(_project(arguments, console))


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
    "plan": _plan,
    "build": _build,
    "verify": _verify,
    "deploy": _deploy,
    "status": _status,
    "history": _history,
    "wait": _wait,
    "logs": _logs,
    "smoke": _smoke,
    "health": _health,
    "bench": _bench,
    "approve": _approve,
    "pause": _pause,
    "resume": _resume,
    "abort": _abort,
    "rollback": _rollback,
    "down": _down,
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
