"""Making sure that nothing of a service runs any more."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.layout import Layout

POLL_S = 0.05
KILL_LIMIT_S = 10.0


def wait_gone(pid: int, limit_s: float) -> None:
    """Wait for the supervisor's end. Raises TargetUnreachable when it takes too long."""
    limit = time.monotonic() + limit_s
    while procfs.identity(pid) is not None:
        if time.monotonic() > limit:
            raise TargetUnreachable(
                f"the supervisor (pid {pid}) did not stop everything within {limit_s:g} s",
                next_step="Run again: opsctl down",
            )
        time.sleep(POLL_S)


def kill_marked(layout: Layout) -> None:
    """SIGKILL whatever still carries the service's mark. Raises TargetUnreachable if it stays."""
    limit = time.monotonic() + KILL_LIMIT_S
    while left := procfs.marked(layout.service_dir):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > limit:
            raise TargetUnreachable(
                f"processes {sorted(left)} of the service can't be ended",
                next_step="End them by hand, then run again: opsctl down",
            )
        time.sleep(POLL_S)
