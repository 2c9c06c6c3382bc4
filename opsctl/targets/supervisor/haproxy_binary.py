"""Where HAProxy's program is."""

from __future__ import annotations

import os
import shutil

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where distributions put HAProxy; often not in the PATH of an ordinary user."""


def find(name: str) -> str | None:
    """The program's path (`local.haproxy` may be a name or a path); None when there is none."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    return shutil.which(name, path=path)
