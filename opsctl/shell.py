"""The only place that starts processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_MAX_BYTES = 64 * 1024
"""How much of a command's output is kept (its end): enough for a traceback, too little to hurt."""

POLL_S = 0.05
"""How often a running command's `interrupt` is asked."""

KILL_GRACE_S = 2.0
"""SIGTERM to SIGKILL for a command that overran its time limit."""


@dataclass(frozen=True)
class Completed:
    """How a command ended. `exit_code` is negative for a signal; 127 when it can't be started."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def why(self) -> str:
        """One line that says why it failed."""
        if self.timed_out:
            return "it ran over its time limit and was stopped"
        last = (self.stderr.strip() or self.stdout.strip()).splitlines()[-1:]
        return f"exit code {self.exit_code}" + (f": {last[0].strip()}" if last else "")


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    interrupt: Callable[[], None] | None = None,
) -> Completed:
    """Run a command to its end, without a shell, in a process group of its own.

    The group is ended when the time limit passes, or when `interrupt` raises.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Completed(tuple(argv), 127, "", f"cannot start {argv[0]}: {error.strerror}")
    try:
        stdout, stderr, timed_out = _wait(process, stdin, timeout_s, interrupt)
    except BaseException:
        _end_group(process)
        raise
    return Completed(
        tuple(argv), process.returncode, _tail(stdout), _tail(stderr), timed_out=timed_out
    )


def _wait(
    process: subprocess.Popen[str],
    stdin: str,
    timeout_s: float,
    interrupt: Callable[[], None] | None,
) -> tuple[str, str, bool]:
    slices = max(1, int(timeout_s / POLL_S)) if interrupt else 1
    for _ in range(slices):
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s / slices)
        except subprocess.TimeoutExpired:
            if interrupt:
                interrupt()
            continue
        return stdout, stderr, False
    _end_group(process)
    stdout, stderr = process.communicate()
    return stdout, stderr, True


def _end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_GRACE_S)


def _tail(text: str) -> str:
    return text[-OUTPUT_MAX_BYTES:]


def spawn(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a process that outlives its parent: session of its own, output appended to `log`.

    The caller keeps the handle to reap it. Raises OSError when it can't be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
