"""From parsed arguments to the project that they mean, and the words that refuse them."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, NoReturn

from opsctl.errors import ConfigError

if TYPE_CHECKING:
    from opsctl.commands.wave import Wish
    from opsctl.config.settings import Project
    from opsctl.console import Console
    from opsctl.session import Options


def load_project(arguments: argparse.Namespace) -> Project:
    """The project that the global options choose."""
    from pathlib import Path

    from opsctl.config.load import load

    return load(
        Path(arguments.config) if arguments.config else None,
        environment=arguments.environment,
        service=arguments.service,
    )


def opened(arguments: argparse.Namespace, console: Console) -> Project:
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

        console.redact = Redactor(secrets)
    return project


def usage_error(message: str) -> NoReturn:
    """Refuse a command line."""
    raise ConfigError(message, next_step="See: opsctl --help")


def options(arguments: argparse.Namespace) -> Options:
    """How to work, by the global options."""
    from opsctl.session import Options

    return Options(timeout_s=arguments.timeout, lock_wait_s=arguments.lock_wait)


def wish(arguments: argparse.Namespace) -> Wish:
    """Several environments or services, by the global options."""
    from pathlib import Path

    from opsctl.commands.wave import Wish

    return Wish(
        Path(arguments.config) if arguments.config else None,
        arguments.environment,
        arguments.service,
        getattr(arguments, "jobs", 1),
        getattr(arguments, "soak", None),
        options(arguments),
    )
