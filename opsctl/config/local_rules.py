"""What must hold between the keys of target `local`."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from opsctl.config import settings as s
from opsctl.config.problems import shown
from opsctl.config.urls import host_problem

if TYPE_CHECKING:
    from opsctl.config.relations import Section


def local(value: s.Local, at: Section) -> None:
    """The section `local` by itself."""
    problem = host_problem(value.host)
    if problem:
        at.wrong("host", f"{problem}; allowed: an address of this machine, like 127.0.0.1")
    at.filled("state_dir", value.state_dir)
    if value.state_dir.startswith("~"):
        at.wrong(
            "state_dir",
            f'found "{shown(value.state_dir)}"; no shell is there to know whose home ~ is; allowed:'
            " the whole path, or one relative to opsctl.yaml",
        )
    at.filled("haproxy", value.haproxy)
    first, last = value.replica_ports
    if first > last:
        at.wrong("replica_ports", f"the range ends ({last}) before it begins ({first})")
    elif isinstance(value.port, int) and first <= value.port <= last:
        at.wrong("replica_ports", f"the front door's port {value.port} lies in it")


def state_apart(value: s.Service, at: Section) -> None:
    """The state must not hold the application, or each deploy would change what it copies."""
    application, state = (
        PurePath(os.path.normpath(path)) for path in (value.app.directory, value.local.state_dir)
    )
    if application == state or state in application.parents:
        at.wrong(
            "local.state_dir",
            f'found "{shown(value.local.state_dir)}", which holds app.directory; allowed: a folder'
            " of its own, like .opsctl",
        )
