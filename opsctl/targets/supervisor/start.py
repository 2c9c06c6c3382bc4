"""Starting the supervisor from a command, and replacing one of an older version."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from opsctl import __version__, shell
from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor import offline, wire
from opsctl.targets.supervisor.launch import BASE_VARIABLES
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.log_tail import last_lines

START_LIMIT_S = 15.0
POLL_S = 0.02

KEEPER = """(
quick=0
while :; do
    began=$(date +%s)
    "$@"
    code=$?
    case $code in 0|3) exit $code;; esac
    if [ $(($(date +%s) - began)) -lt 2 ]; then quick=$((quick + 1)); else quick=0; fi
    if [ $quick -lt 5 ]; then sleep 0.2; else sleep 5; fi
done
) </dev/null &
"""
"""Starts the supervisor again when it is killed; exit codes as in `supervisor.__main__`.

One that dies five times at once can't work just now, and must not eat a CPU by trying.
"""


def ensure_running(layout: Layout) -> None:
    """Make sure that a supervisor of this version (or a newer one) answers.

    Raises TargetUnreachable when it does not within the time limit.
    """
    with contextlib.suppress(wire.NobodyListens):
        hello = wire.call(layout, {"call": "hello"})
        if _version(hello["version"]) >= _version(__version__):
            return
        wire.call(layout, {"call": "replace"})
        _wait_gone(hello["pid"])
    offline.refuse_newer(layout)
    _start(layout)


def spawn_keeper(layout: Layout) -> None:
    """Start a keeper, which starts a supervisor. Raises OSError."""
    keeper = shell.spawn(
        ["/bin/sh", "-c", KEEPER, "opsctl-keeper", sys.executable, "-m",
         "opsctl.targets.supervisor", "--dir", str(layout.service_dir)],
        # `-m` finds opsctl from here, be it a checkout or an installed package.
        cwd=Path(__file__).resolve().parents[3],
        env={name: os.environ[name] for name in BASE_VARIABLES if name in os.environ},
        log=layout.supervisor_log,
    )  # fmt: skip
    keeper.wait()  # the shell itself goes to the background at once


def _start(layout: Layout) -> None:
    try:
        layout.run.mkdir(parents=True, exist_ok=True, mode=0o700)
        spawn_keeper(layout)
    except OSError as error:
        raise TargetUnreachable(
            f"cannot use the state directory {layout.service_dir}",
            why=error.strerror or str(error),
            next_step="Make it writable or set local.state_dir.",
        ) from error
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        with contextlib.suppress(wire.NobodyListens):
            wire.call(layout, {"call": "hello"})
            return
        time.sleep(POLL_S)
    raise TargetUnreachable(
        f"the supervisor did not start within {START_LIMIT_S:g} s",
        why=last_lines(layout.supervisor_log),
        next_step=f"See {layout.supervisor_log}",
    )


def _wait_gone(pid: int) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
        time.sleep(POLL_S)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
