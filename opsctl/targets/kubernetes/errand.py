"""A command in the environment of a release: an `exec` in one of its ready replicas."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsctl.config import placeholders
from opsctl.errors import HealthFailed
from opsctl.model import Json, Replica
from opsctl.render.service_values import PYTHON
from opsctl.shell import OUTPUT_MAX_BYTES
from opsctl.targets.kubernetes.values import kept_release
from opsctl.targets.target import CommandResult

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

TIMED_OUT = 124
"""As timeout(1)."""

SLICE_S = 0.1
ERROR_CHANNEL = 3
NOT_STARTED = 126
"""As env(1) for a program that can't be started."""


@dataclass(frozen=True)
class Bounds:
    """What a command gets on top of its release's environment, and what ends it."""

    env: Mapping[str, str]
    timeout_s: float
    interrupt: Callable[[], None] | None = None


def run(
    target: KubernetesTarget, release: str, argv: Sequence[str], bounds: Bounds
) -> CommandResult:
    """Run `argv` and return what it said. The API can't end a command: one that runs too long is
    left alone. Variables on top are set by env(1), which the image must have for that."""
    replica = _ready(target, release)
    launch = kept_release(target, release)["launch"]
    filled = [placeholders.fill(word, _known(launch, replica)) for word in argv]
    more = [f"{name}={value}" for name, value in bounds.env.items()]
    command = ["env", *more, *filled] if more else filled
    container = target.view.container(replica.name)
    query = [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in command]
    path = target.names.path("pods", replica.name, "exec")
    client = target.api.command(path, query)
    deadline = time.monotonic() + bounds.timeout_s
    out = err = ""
    while client.is_open():
        if bounds.interrupt:
            bounds.interrupt()
        if time.monotonic() > deadline:
            client.close()
            return CommandResult(TIMED_OUT, out, f"{err}stopped after {bounds.timeout_s:g} s\n")
        client.update(timeout=SLICE_S)
        out = (out + client.read_stdout(timeout=0))[-OUTPUT_MAX_BYTES:]
        err = (err + client.read_stderr(timeout=0))[-OUTPUT_MAX_BYTES:]
    return _ended(client.read_channel(ERROR_CHANNEL), out, err)


def _ready(target: KubernetesTarget, release: str) -> Replica:
    for replica in target.view.look().replicas():
        if (replica.release, replica.role, replica.phase) == (release, "serving", "ready"):
            return replica
    raise HealthFailed(
        f"{release} has no ready replica to run a command in",
        next_step=f"Look with: opsctl logs {release}",
    )


def _known(launch: Json, replica: Replica) -> Mapping[str, str]:
    return {
        "python": PYTHON,
        "host": "127.0.0.1",
        "port": str(replica.port),
        "health_port": str(replica.health_port),
        "model": launch["model_path"],
        "release": replica.release,
        "replica": replica.name,
    }


def _ended(status: str, out: str, err: str) -> CommandResult:
    """How it ended, as the error channel tells (a `Status` of Kubernetes)."""
    told: Json = json.loads(status) if status else {"status": "Failure", "message": "cut off"}
    if told["status"] == "Success":
        return CommandResult(0, out, err)
    for cause in (told.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return CommandResult(int(cause["message"]), out, err)
    return CommandResult(NOT_STARTED, out, f"{err}{told.get('message', '')}\n")
