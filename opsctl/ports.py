"""Who listens on a TCP port of this machine, read from /proc; for messages and for proofs.

Formats: proc_pid_net(5) for `/proc/net/tcp` and proc(5) for `/proc/PID/fd` and `/proc/PID/stat`.
"""

from __future__ import annotations

import contextlib
import errno
import pwd
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

LISTEN = "0A"
"""The state TCP_LISTEN in the `st` column."""

COMMAND_MAX = 120
"""Characters of a command line that an error message shows."""


@dataclass(frozen=True)
class PortHolder:
    """Who listens on a port. `pid` is 0 when it belongs to another user and can't be seen."""

    port: int
    pid: int
    command: str
    user: str = ""

    def __str__(self) -> str:
        """As it stands in a sentence: `pid 412 (python main.py)`."""
        if self.pid:
            return f"pid {self.pid} ({self.command})"
        return f"a process of user {self.user}"


@dataclass(frozen=True)
class _Listener:
    inode: int
    uid: int


def port_holder(port: int) -> PortHolder | None:
    """The process that listens on `port`, None when nobody does."""
    listeners = _listeners(port)
    if not listeners:
        return None
    inodes = {listener.inode for listener in listeners}
    for pid in _pids():
        if _sockets(pid) & inodes:
            return PortHolder(port, pid, _command(pid), _user(listeners[0].uid))
    return PortHolder(port, 0, "", _user(listeners[0].uid))


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen on host:port now.

    Raises OSError when the host is no address of this machine, or the port is not allowed.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # Servers set it too: connections in TIME_WAIT don't make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            # Two sockets with SO_REUSEADDR may both bind; only one of them may listen.
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def owned_by(port: int, pids: Collection[int]) -> bool:
    """Whether somebody listens on `port`, and every listener is one of `pids` or their offspring.

    This is how a replica proves that the answer on its port is its own.
    """
    inodes = {listener.inode for listener in _listeners(port)}
    if not inodes:
        return False
    missing = inodes - _held(pids)
    return not missing or not missing - _held(_offspring(pids))


def _held(pids: Iterable[int]) -> set[int]:
    held: set[int] = set()
    for pid in pids:
        held |= _sockets(pid)
    return held


def _listeners(port: int) -> list[_Listener]:
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                    found.append(_Listener(int(columns[9]), int(columns[7])))
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _sockets(pid: int) -> set[int]:
    """Inodes of the sockets that a process holds; nothing when it is gone or not ours to see."""
    inodes = set()
    with contextlib.suppress(OSError):
        for descriptor in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                link = str(descriptor.readlink())
                if link.startswith("socket:["):
                    inodes.add(int(link[len("socket:[") : -1]))
    return inodes


def _offspring(pids: Iterable[int]) -> set[int]:
    """All processes that descend from `pids`."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        parent = _parent(pid)
        if parent:
            children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _parent(pid: int) -> int:
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    # The name in parentheses may itself hold spaces and parentheses: columns count after the last.
    return int(stat.rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        name = (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "gone"
    line = " ".join(word.decode(errors="replace") for word in words if word) or name
    return line if len(line) <= COMMAND_MAX else line[: COMMAND_MAX - 1] + "…"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
