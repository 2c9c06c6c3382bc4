"""Requests of users, from the load balancer to the command: runs in the agent's container.

`python -m opsctl.targets.docker.tap_relay SHARE`. Says one JSON object, as the agent answers, and
then the load balancer's log lines until stdin is at its end.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from opsctl.errors import OpsctlError
from opsctl.targets.docker.names import STATE_DIR
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.wire import packed
from opsctl.targets.tap import tap

POLL_S = 0.1


def main(share: float) -> int:
    """Pass lines on until the command hangs up."""
    try:
        with tap(Layout(Path(STATE_DIR)).run, share) as opened:
            _say(json.dumps({"ok": True}).encode())
            while not select.select([sys.stdin], [], [], 0)[0]:
                line = opened.next(POLL_S)
                if line is not None:
                    _say(line.rstrip(b"\n"))
    except OpsctlError as error:
        _say(json.dumps(packed(error)).encode())
    except BrokenPipeError:
        pass
    return 0


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
