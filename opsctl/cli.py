"""argv → one call → print → exit code. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from opsctl.console import Console
from opsctl.errors import Interrupted, OpsctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERNAL_ERROR = 1
SIGINT_EXIT = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from opsctl.cli_parser import build_parser

    words = sys.argv[1:] if argv is None else argv
    arguments = build_parser(words).parse_args(words)
    console = Console(arguments.output)
    try:
        return _run(arguments, console)
    except OpsctlError as error:
        return _failed(arguments, console, error)
    except KeyboardInterrupt:
        return SIGINT_EXIT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("OPSCTL_DEBUG"):
            raise
        what = f"internal error: {type(error).__name__}: {error}"
        hint = "Run again with OPSCTL_DEBUG=1 for the traceback; opsctl resume is safe."
        return _failed(arguments, console, OpsctlError(what, next_step=hint))


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from opsctl import cli_commands

    outcome = cli_commands.COMMANDS[arguments.command](arguments, console)
    if outcome is None:
        return 0
    console.result(outcome.data, outcome.text)
    return outcome.exit_code


def _failed(arguments: argparse.Namespace, console: Console, error: OpsctlError) -> int:
    code = error.signal_exit_code if isinstance(error, Interrupted) else error.exit_code
    console.error(error)
    if arguments.output != "text":
        data = {"outcome": "error", "error": error.to_dict(), "exit_code": code}
        console.result({**data, "serving_release": _serving(arguments)}, "")
    return code


def _serving(arguments: argparse.Namespace) -> str | None:
    """What serves, as the last word of a failed command; it must never fail itself."""
    from opsctl.cli_commands import load_project
    from opsctl.commands.rollout import serving_release

    try:
        return serving_release(load_project(arguments))
    except OpsctlError:
        return None


if __name__ == "__main__":
    sys.exit(main())
