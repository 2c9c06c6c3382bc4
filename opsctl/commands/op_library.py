"""Calls the tools of the operator library (ascend-ops) in the Python that has it.

They are programs of their own, so that opsctl needs neither TensorFlow nor the library, and works
with the library of any environment: `--python`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from opsctl import shell
from opsctl.commands.outcome import Outcome
from opsctl.errors import (
    BuildFailed,
    ConfigError,
    GateFailed,
    OpsctlError,
    PreflightRefused,
    SmokeFailed,
    TimedOut,
)

PACKAGE = "ascend_ops"

ERRORS: dict[int, type[OpsctlError]] = {
    kind.exit_code: kind
    for kind in (ConfigError, PreflightRefused, BuildFailed, SmokeFailed, GateFailed)
}
"""Exit codes of the tools → errors here."""

TIMEOUT_S = 6 * 3600.0
"""Without --timeout: longer than any conversion of a large model takes."""

LOOK_S = 60.0
"""To ask an interpreter whether it has the package; a cold start from a slow disk included."""


def call(
    tool: str, arguments: Sequence[str], *, python: str | None, timeout_s: float | None
) -> Outcome:
    """What `python -m ascend_ops.<tool>` answers; its progress shows on stderr as it comes.

    Raises the error that its exit code stands for, and PreflightRefused when the interpreter has
    no ascend-ops.
    """
    interpreter = _find_python(python)
    argv = [interpreter, "-m", f"{PACKAGE}.{tool}", "--json", *arguments]
    done = shell.run_visible(argv, timeout_s=timeout_s or TIMEOUT_S)
    if done.timed_out:
        raise TimedOut(f"{tool} ran over the time limit", next_step="Give it more: --timeout S")
    answer = _read(tool, done)
    if answer["outcome"] == "error":
        raise ERRORS.get(done.exit_code, OpsctlError)(answer["message"])
    text = answer.pop("text")
    return Outcome(done.exit_code, {**answer, "exit_code": done.exit_code}, text)


def _find_python(given: str | None) -> str:
    interpreter = shutil.which(given) if given else sys.executable
    if interpreter is None:
        raise ConfigError(f"there is no Python at {given}", next_step="Correct --python")
    if not _has_package(interpreter):
        raise PreflightRefused(
            f"{interpreter} has no ascend-ops, the operator library",
            why="this command is one of its tools",
            next_step="Install it there (pip install ./kernels), or name another: --python PATH",
        )
    return interpreter


def _has_package(interpreter: str) -> bool:
    if interpreter == sys.executable:
        return importlib.util.find_spec(PACKAGE) is not None
    question = (
        f"import importlib.util, sys; sys.exit(importlib.util.find_spec({PACKAGE!r}) is None)"
    )
    return shell.run([interpreter, "-c", question], timeout_s=LOOK_S).ok


def _read(tool: str, done: shell.Completed) -> dict[str, Any]:
    """The object that the tool printed last."""
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        if done.exit_code == ConfigError.exit_code:
            raise ConfigError(
                f"{tool} did not understand its arguments", why="see above"
            ) from error
        raise OpsctlError(
            f"{tool} of ascend-ops stopped without an answer",
            why=f"exit code {done.exit_code}; what it said stands above",
            next_step="Check the library: python -m ascend_ops.selftest",
        ) from error
    return answer


def options(**values: object) -> list[str]:
    """Command-line options of those values that are set: `out_nodes="y:0"` → --out-nodes=y:0."""
    argv: list[str] = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            argv.append(flag)
        elif isinstance(value, list | tuple):
            argv += [flag, *map(str, value)] if value else []
        elif value is not None and value is not False:
            # In one word: a value that begins with - is no option.
            argv.append(f"{flag}={value}")
    return argv
