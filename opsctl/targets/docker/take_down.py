"""The end of a service on a Docker host."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.docker import model_upload
from opsctl.targets.docker.names import AGENT_PART, PART
from opsctl.targets.supervisor.wire import NobodyListens

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget

POLL_S = 0.1
HELD = ("logs", "releases", "secrets", "tls")
"""Folders of the state that go; journal, inbox and bundles stay as the record of it."""

MARGIN_S = 60.0
"""On top of drain and stop limits, for a host under load."""

AGAIN_S = 5.0
"""How often the order is given to whatever agent there is."""


def run(target: DockerTarget, epoch: int) -> None:
    """Stop everything and remove what the host holds but the state's record.

    Raises Superseded, and TargetUnreachable when something would not stop.
    """
    if not target.setup.exists():
        return
    order = {"call": "down", "epoch": epoch}
    target.call(order)
    service = target.project.service
    limit_s = service.strategy.drain_timeout_s + service.app.stop_timeout_s + MARGIN_S
    _await_empty(target, order, limit_s)
    _forget(target, limit_s)


def _await_empty(target: DockerTarget, order: Json, limit_s: float) -> None:
    """Wait until only the agent is left.

    An agent that ended meanwhile, killed or over an engine's error, is another one now, which knows
    nothing of the order: it is given again.
    """
    began = ordered = time.monotonic()
    while left := _others(target):
        now = time.monotonic()
        if now - began > limit_s:
            raise TargetUnreachable(
                f"containers {', '.join(left)} did not stop within {limit_s:g} s",
                next_step="Run again: opsctl down",
            )
        if now - ordered > AGAIN_S:
            ordered = now
            with contextlib.suppress(TargetUnreachable):
                target.call(order)
        time.sleep(POLL_S)


def _forget(target: DockerTarget, limit_s: float) -> None:
    """Empty the state of all but its record.

    The agent that did the rest may have ended, or end now; the engine starts another in its place,
    at its leisure.
    """
    limit = time.monotonic() + limit_s
    while True:
        try:
            target.setup.ensure_running(newest=False)
            for folder in HELD:
                target.storage.remove(folder)
            _remove_models(target)
            return
        except NobodyListens:
            if time.monotonic() > limit:
                raise
            time.sleep(POLL_S)


def _others(target: DockerTarget) -> list[str]:
    with target.engine.told("cannot list the service's containers"):
        found = target.engine.api.containers(all=True, filters=target.names.filters())
    return [one["Names"][0][1:] for one in found if one["Labels"].get(PART) != AGENT_PART]


def _remove_models(target: DockerTarget) -> None:
    """Empty the volume of models: it is mounted in the agent, and can't be removed before it."""
    model_upload.prune(target, ())
