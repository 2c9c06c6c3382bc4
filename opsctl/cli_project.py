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
    from opsctl.reader import Reader
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
    """The project; from now on no output shows a secret that one of its releases has."""
    return looking(arguments, console).project


def looking(arguments: argparse.Namespace, console: Console) -> Reader:
    """A look at the project's service, with its secrets hidden as by `opened`.

    A hurried command goes on with it: one more line to a target far away costs it a tenth of a
    second. (An application may have shouted a secret into its log, whose last lines many show.)
    """
    from opsctl.errors import TargetUnreachable
    from opsctl.reader import reader
    from opsctl.secrets import SecretStore

    look = reader(load_project(arguments))
    secrets: dict[str, str] = {}
    with contextlib.suppress(TargetUnreachable):  # the command itself will say so
        secrets = SecretStore(look.storage).everything()
    if secrets:
        from opsctl.redact import Redactor

        console.redact = Redactor(secrets)
    return look


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
