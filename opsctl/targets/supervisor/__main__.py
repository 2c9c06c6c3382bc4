"""`python -m opsctl.targets.supervisor --dir SERVICE_DIR`: started by `start.ensure_running`.

Exit codes for the keeper: 0 the work is done; 3 it can't be done by this version; any other: the
keeper starts it again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from opsctl.errors import OpsctlError, TargetUnreachable
from opsctl.files import write_atomically
from opsctl.targets.supervisor import wire
from opsctl.targets.supervisor.core import Supervisor, started
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.server import serve

LOCK_WAIT_S = 5.0
"""How long a supervisor that is being replaced may take to end."""

ENDED_BY_SIGNAL = 1
CANNOT_WORK = 3


def main() -> int:
    """Run the supervisor until its work is done."""
    parser = argparse.ArgumentParser(prog="opsctl-supervisor")
    parser.add_argument("--dir", type=Path, required=True)
    layout = Layout(parser.parse_args().dir.resolve())
    # The keeper's shell ignores SIGINT in the background; replicas must not inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o077)
    # Commands make the folder before they start us; without it the service was taken down.
    if not layout.run.is_dir():
        return 0
    for folder in (layout.logs, layout.inbox):
        folder.mkdir(exist_ok=True)
    os.chdir(layout.run)
    lock = _locked(layout)
    if lock is None:
        return 0
    with contextlib.suppress(OSError):  # a full disk must not keep us from our work
        write_atomically(layout.pid_file, f"{os.getpid()}\n")
    try:
        return asyncio.run(_run(layout))
    except TargetUnreachable as error:
        print(error, file=sys.stderr, flush=True)
        return CANNOT_WORK


def _locked(layout: Layout) -> TextIO | None:
    """The lock that makes this the only supervisor; None when another one lives.

    One that answers is there to stay: waiting for it would begin the service anew after its end.
    A lock whose file is gone belonged to a service that was taken down meanwhile.
    """
    lock = layout.lock_file.open("w")
    limit = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock if _is_at(lock, layout.lock_file) else None
        except BlockingIOError:
            if time.monotonic() > limit or _answers(layout):
                lock.close()
                return None
            time.sleep(0.05)


def _is_at(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _answers(layout: Layout) -> bool:
    try:
        wire.call(layout, {"call": "hello"})
    except OpsctlError:
        return False
    return True


async def _run(layout: Layout) -> int:
    supervisor = started(layout)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _end, supervisor)
    await supervisor.adopt()
    server = await serve(supervisor)
    try:
        return await supervisor.run()
    finally:
        server.close()


def _end(supervisor: Supervisor) -> None:
    supervisor.exit_code = ENDED_BY_SIGNAL
    supervisor.wake()


if __name__ == "__main__":
    sys.exit(main())
