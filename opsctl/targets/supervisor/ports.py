"""Ports for replicas and the front door: chosen in a range, proved free by binding them."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable

from opsctl.errors import TargetUnreachable
from opsctl.ports import owned_by, port_holder, port_is_free

ANY_ADDRESS = "0.0.0.0"

FRONT_FIRST = 8501
"""First port that `local.port: auto` tries: TensorFlow Serving's REST port."""

FRONT_LAST = 9500

PORT_MIN = 1024
"""Smaller numbers in a command are counts more often than ports."""


def is_free(port: int, host: str = ANY_ADDRESS) -> bool:
    """Whether a server could listen there; False also for an address that is not ours."""
    try:
        return port_is_free(host, port)
    except OSError:
        return False


def choose(low: int, high: int, taken: Collection[int]) -> int:
    """A free port of the range, at random so that two projects rarely meet.

    Raises TargetUnreachable when the whole range is taken.
    """
    start = random.randrange(high - low + 1)
    for offset in range(high - low + 1):
        port = low + (start + offset) % (high - low + 1)
        if port not in taken and is_free(port):
            return port
    raise TargetUnreachable(
        f"no free port between {low} and {high}", next_step="Widen local.replica_ports."
    )


def choose_front(host: str, section: str) -> int:
    """First free port for a front door. Raises TargetUnreachable when there is none, and names the
    setting, which stands in this section of opsctl.yaml."""
    for port in range(FRONT_FIRST, FRONT_LAST + 1):
        if is_free(port, host):
            return port
    raise TargetUnreachable(
        f"no free port between {FRONT_FIRST} and {FRONT_LAST}", next_step=f"Set {section}.port."
    )


def stranger_on(port: int, own: Collection[int]) -> str | None:
    """Who listens there and is none of `own`: "" when nobody else does, None when nobody at all."""
    if owned_by(port, own):
        return ""
    holder = port_holder(port)
    return str(holder) if holder else None


def held_by_others(words: Iterable[str], own: Collection[int]) -> str:
    """A sentence on a port that stands in `words` and is held by a process not in `own`.

    Empty when there is none. It explains a failed start of an application with a port of its own.
    """
    for number in re.findall(r"(?<![\w.])\d{4,5}(?![\w.])", " ".join(words)):
        holder = port_holder(int(number)) if PORT_MIN <= int(number) < 65536 else None
        if holder and holder.pid not in own:
            return f"port {number} of its command is held by {holder}"
    return ""


def taken_by(port: int) -> str:
    """Who holds a port, for people."""
    found = port_holder(port)
    return f"it is held by {found}" if found else "it can't be bound"
