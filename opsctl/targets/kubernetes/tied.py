"""Start a program that dies with the opsctl that started it: `tied.py PID PROGRAM ARGUMENTS…`.

Run by path and without site-packages: it must cost a rollback little.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def main() -> None:
    """Become the program, unless the parent is gone already."""
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"cannot start {argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
