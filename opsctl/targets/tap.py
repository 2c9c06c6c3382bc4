"""Requests of users as opsctl's load balancer tells of them, while somebody listens.

HAProxy keeps the body of a share of the requests and sends it with its log to a datagram socket
in the service's run folder (manifests/haproxy.cfg.j2). It does so only until a time that the
listener moves on each second, so that a listener that was killed leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor.layout import ADMIN_SOCKET_NAME, RECORD_SOCKET_NAME

SHARE_UNIT = 1_000_000
"""HAProxy draws a whole number below this for each request."""

LEASE_S = 3
RENEW_S = 1.0

ADMIN_TIMEOUT_S = 2.0

DATAGRAM_MAX_BYTES = 70_000
"""More than a log line of HAProxy can have (65,535)."""

RECEIVE_BUFFER_BYTES = 4 * 2**20


class SocketTap:
    """An open tap on the HAProxy whose run folder it is."""

    def __init__(self, folder: Path, share: float) -> None:
        self._folder = folder
        self._share = max(1, round(share * SHARE_UNIT))
        self._renewed = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def open(self) -> None:
        """Listen, and have HAProxy tell. Raises TargetUnreachable when it does not answer."""
        with _inside(self._folder) as name:
            self._take_place(name(RECORD_SOCKET_NAME))
        self._renew()

    def _take_place(self, path: str) -> None:
        """Bind the socket; one that a killed recording left is replaced."""
        if os.path.exists(path):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                if other.connect_ex(path) == 0:
                    raise TargetUnreachable(
                        "requests of this service are being recorded already",
                        next_step="Wait for the end of the other `opsctl bench record`.",
                    )
            os.unlink(path)
        self._socket.bind(path)

    def next(self, timeout_s: float) -> bytes | None:
        """The log line of the next request; None when none came in time."""
        if time.monotonic() - self._renewed >= RENEW_S:
            self._renew()
        self._socket.settimeout(timeout_s)
        try:
            return self._socket.recv(DATAGRAM_MAX_BYTES)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Have HAProxy stop, and remove the socket."""
        with contextlib.suppress(TargetUnreachable):  # then its time passes by itself
            self._command("set var proc.record_until int(0)")
        if self._socket.getsockname():
            (self._folder / RECORD_SOCKET_NAME).unlink(missing_ok=True)
        self._socket.close()

    def _renew(self) -> None:
        self._renewed = time.monotonic()
        self._command(
            f"set var proc.record_share int({self._share}); "
            f"set var proc.record_until int({int(time.time()) + LEASE_S})"
        )

    def _command(self, text: str) -> None:
        """Set variables, which HAProxy 2.6 lets nobody do without saying so first."""
        try:
            with _inside(self._folder) as name, socket.socket(socket.AF_UNIX) as admin:
                admin.settimeout(ADMIN_TIMEOUT_S)
                admin.connect(name(ADMIN_SOCKET_NAME))
                admin.sendall(f"experimental-mode on; {text}\n".encode())
                said = admin.makefile().read().strip()
        except OSError as error:
            raise TargetUnreachable(
                "the load balancer does not answer",
                why=error.strerror or str(error),
                next_step="See: opsctl status, opsctl resume",
            ) from error
        if said:
            raise TargetUnreachable("the load balancer can't record requests", why=said)


@contextmanager
def tap(folder: Path, share: float) -> Iterator[SocketTap]:
    """A tap on the load balancer whose run folder it is; closed afterwards, whatever happened."""
    opened = SocketTap(folder, share)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


@contextmanager
def _inside(folder: Path) -> Iterator[Callable[[str], str]]:
    """Short names for what is in a folder: a socket's path may have 108 bytes only."""
    try:
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TargetUnreachable(
            "nothing runs, so there is nothing to record", next_step="See: opsctl status"
        ) from error
    try:
        yield lambda name: f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)
