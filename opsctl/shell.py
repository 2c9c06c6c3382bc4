"""The only place that starts processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

OUTPUT_MAX_BYTES = 64 * 1024
"""How much of a command's output is kept (its end): enough for a traceback, too little to hurt."""

OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024
"""A command that writes more than this is ended, before it fills the disk."""

POLL_S = 0.05
"""How often a running command's `interrupt` is asked."""

SIZE_LOOK_S = 0.5
"""How often the size of its output is looked at."""

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
    progress: Callable[[str], None] | None = None,
    grace_s: float = KILL_GRACE_S,
) -> Completed:
    """Run a command to its end, without a shell, in a process group of its own.

    The group is ended when the time limit passes, when `interrupt` raises, or when the output
    passes OUTPUT_LIMIT_BYTES: SIGTERM, and SIGKILL `grace_s` seconds later. Children that the
    command leaves behind are not waited for.
    `progress` gets each line of stderr as it comes.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, \
            tempfile.TemporaryFile() as err:  # fmt: skip
        # Files, not pipes: a command that leaves a child behind ends when it ends.
        given.write(stdin.encode())
        given.seek(0)
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(env) if env is not None else None,
                stdin=given,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            return Completed(tuple(argv), 127, "", f"cannot start {argv[0]}: {error.strerror}")
        try:
            follow = _follower(err.fileno(), progress) if progress else None
            flood = _Flood((out, err))
            timed_out = _wait(process, timeout_s, _both(interrupt, follow), flood)
            if process.returncode is None:
                _end_group(process, grace_s)
            if follow:
                follow()
        except BaseException:
            _end_group(process, grace_s)
            raise
        said = _tail(err) + flood.verdict
        return Completed(tuple(argv), process.returncode, _tail(out), said, timed_out)


def _both(
    first: Callable[[], None] | None, second: Callable[[], None] | None
) -> Callable[[], None] | None:
    if first is None or second is None:
        return first or second

    def call() -> None:
        first()
        second()

    return call


def _follower(descriptor: int, progress: Callable[[str], None]) -> Callable[[], None]:
    """A function that hands over the whole lines that came since its last call."""
    at = 0
    rest = b""

    def look() -> None:
        nonlocal at, rest
        # Not read(): the offset of the file is the command's own.
        while new := os.pread(descriptor, OUTPUT_MAX_BYTES, at):
            at += len(new)
            *lines, rest = (rest + new).split(b"\n")
            for line in lines:
                progress(line.decode(errors="replace"))

    return look


class _Flood:
    """Whether a command has written more than anybody wants to keep."""

    def __init__(self, files: Sequence[IO[bytes]]) -> None:
        self._files = files
        self.verdict = ""

    def __call__(self) -> bool:
        size = sum(os.fstat(file.fileno()).st_size for file in self._files)
        if size > OUTPUT_LIMIT_BYTES:
            self.verdict = f"\nended: it wrote more than {OUTPUT_LIMIT_BYTES // 2**20} MiB"
        return bool(self.verdict)


def _wait(
    process: subprocess.Popen[bytes],
    timeout_s: float,
    interrupt: Callable[[], None] | None,
    flood: Callable[[], bool],
) -> bool:
    """Wait for the end, or until the command must be ended; True when its time was over."""
    deadline = time.monotonic() + timeout_s
    end = select.poll()
    descriptor = os.pidfd_open(process.pid)
    try:
        # Not process.wait(timeout): it sleeps up to 50 ms beyond the end.
        end.register(descriptor, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if end.poll(1000 * min(left, POLL_S if interrupt else SIZE_LOOK_S)):
                process.wait()
                return False
            if interrupt:
                interrupt()
            if flood():
                return False
    finally:
        os.close(descriptor)
    return True


def _end_group(process: subprocess.Popen[bytes], grace_s: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)


def _tail(file: IO[bytes]) -> str:
    """The end of a command's output."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - OUTPUT_MAX_BYTES))
    return file.read().decode(errors="replace")


def run_visible(argv: Sequence[str], *, timeout_s: float) -> Completed:
    """Run a command whose stderr is this process's, so that its progress shows; stdout is kept.

    It stays in this process group, so that Ctrl-C reaches it as well.
    """
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=out)
        except OSError as error:
            return Completed(tuple(argv), 127, "", f"cannot start {argv[0]}: {error.strerror}")
        timed_out = False
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
        out.seek(0)
        text = out.read().decode(errors="replace")
        return Completed(tuple(argv), process.returncode, text, "", timed_out)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that a process has ended: asked first, then made to."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
