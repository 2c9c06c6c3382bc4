"""Requests of users as the balancer's container tells of them: a relay in the agent's passes them
on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.channel import Pipe
from opsctl.targets.docker.engine import Engine
from opsctl.targets.supervisor import wire

RELAY = ("python3", "-m", "opsctl.targets.docker.tap_relay")

START_LIMIT_S = 30.0


class ContainerTap:
    """An open tap; lines come through the Docker API."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._rest = b""

    def open(self) -> None:
        """Wait for the relay's answer, and raise the error that it may be."""
        answer = self.next(START_LIMIT_S)
        if answer is None:
            raise TargetUnreachable(f"the service's agent tells nothing within {START_LIMIT_S:g} s")
        wire.unpacked(json.loads(answer))

    def next(self, timeout_s: float) -> bytes | None:
        """The log line of the next request; None when none came in time."""
        self._pipe.settimeout(timeout_s)
        while b"\n" not in self._rest:
            try:
                data = self._pipe.read()
            except TimeoutError:
                return None
            if not data:
                raise TargetUnreachable(
                    "the load balancer tells of no more requests",
                    why=self._pipe.said.decode(errors="replace").strip()[-500:],
                    next_step="See: opsctl status",
                )
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@contextmanager
def tap(engine: Engine, agent: str, share: float) -> Iterator[ContainerTap]:
    """A tap on the load balancer beside this agent; closed afterwards, whatever happened."""
    pipe = Pipe(engine, agent, [*RELAY, str(share)])
    try:
        opened = ContainerTap(pipe)
        opened.open()
        yield opened
    finally:
        pipe.close()
