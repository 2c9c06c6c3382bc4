"""A pipe into the agent's container: stdin and stdout joined to a socket there.

`python relay.py unix PATH` or `python relay.py tcp HOST PORT`. It runs inside the container by
`exec`, so that the Docker API is all that a command needs. Only the standard library: it is
started for each command, by path.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys

BLOCK_BYTES = 65536


def join(there: socket.socket) -> None:
    """Copy both ways until either side is at its end."""
    with selectors.DefaultSelector() as ready:
        ready.register(0, selectors.EVENT_READ)
        ready.register(there, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd == 0:
                    data = os.read(0, BLOCK_BYTES)
                    if data:
                        there.sendall(data)
                    else:
                        ready.unregister(0)
                        with contextlib.suppress(OSError):
                            there.shutdown(socket.SHUT_WR)
                else:
                    data = there.recv(BLOCK_BYTES)
                    if not data:
                        return
                    _write(data)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main(argv: list[str]) -> int:
    """Join the socket that `argv` names. 7: nobody listens there."""
    kind, *where = argv
    try:
        if kind == "unix":
            there = socket.socket(socket.AF_UNIX)
            there.connect(where[0])
        else:
            there = socket.create_connection((where[0], int(where[1])))
    except OSError as error:
        print(f"{' '.join(where)}: {error.strerror}", file=sys.stderr)
        return 7
    with there:
        join(there)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
