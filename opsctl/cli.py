"""argv → one call → print → exit code. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING

from opsctl.console import Console
from opsctl.errors import Interrupted, OpsctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERNAL_ERROR = 1
SIGINT = 2
STANDARD_STREAMS = (0, 1, 2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from opsctl.cli_parser import build_parser
    from opsctl.cli_words import asked_output, in_order

    _open_standard_streams()
    words = in_order(sys.argv[1:] if argv is None else argv)
    arguments = argparse.Namespace(output=asked_output(words))
    console = Console(arguments.output)
    try:
        arguments = build_parser(words).parse_args(words)
        return _run(arguments, console)
    except OpsctlError as error:
        return _failed(arguments, console, error)
    except KeyboardInterrupt:
        return _failed(arguments, console, Interrupted(SIGINT))
    except BrokenPipeError:  # the reader of a log had enough
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
    from opsctl.cli_words import refuse_vain_dry_run

    refuse_vain_dry_run(arguments)
    outcome = cli_commands.COMMANDS[arguments.command](arguments, console)
    data = outcome.data
    if console.output != "text" and "serving_release" not in data:
        data = {**data, "serving_release": _serving(arguments)}
    try:
        console.result(data, outcome.text)
    except BrokenPipeError:
        pass
    except OSError as error:
        what = f"what was done can't be written to stdout: {error.strerror}"
        console.error(OpsctlError(what, next_step="See: opsctl status, opsctl history"))
        return outcome.exit_code or INTERNAL_ERROR
    return outcome.exit_code


def _open_standard_streams() -> None:
    """Fill those that are closed, or a file of ours would get their number and their output."""
    for number in STANDARD_STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _failed(arguments: argparse.Namespace, console: Console, error: OpsctlError) -> int:
    code = error.signal_exit_code if isinstance(error, Interrupted) else error.exit_code
    console.error(error)
    if console.output != "text":
        data = {"outcome": "error", "error": error.to_dict(), "exit_code": code}
        with contextlib.suppress(OSError):  # the exit code says it as well
            console.result({**data, "serving_release": _serving(arguments)}, "")
    return code


def _serving(arguments: argparse.Namespace) -> str | None:
    """What serves, as the last word of a failed command; it must never fail itself."""
    from opsctl.cli_project import load_project
    from opsctl.commands.rollout import serving_release

    if "config" not in arguments:
        return None  # the words were wrong, so that no project is known
    try:
        return serving_release(load_project(arguments))
    except OpsctlError:
        return None


if __name__ == "__main__":
    sys.exit(main())
