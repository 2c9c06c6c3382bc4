"""A command in the environment of a release: a container of its own beside the replica's.

Not an `exec` in the replica: the Engine API can't end one that runs too long, and its memory would
count against the replica, which may be serving.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsctl.errors import ConfigError
from opsctl.secrets import SecretStore
from opsctl.shell import OUTPUT_MAX_BYTES
from opsctl.targets.docker import npus
from opsctl.targets.docker.container import Limits, Recipe, config_of, working_dir
from opsctl.targets.docker.engine import Missing
from opsctl.targets.docker.names import ERRAND_PART, NPUS, STATE_DIR
from opsctl.targets.supervisor import launch as launching
from opsctl.targets.supervisor.launch import Household, Launch, Seat
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.target import CommandResult

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget

POLL_S = 0.05
TIMED_OUT = 124
"""As timeout(1)."""


@dataclass(frozen=True)
class Bounds:
    """What a command gets on top of its release's environment, and what ends it."""

    env: Mapping[str, str]
    timeout_s: float
    interrupt: Callable[[], None] | None = None


def run(target: DockerTarget, release: str, argv: Sequence[str], bounds: Bounds) -> CommandResult:
    """Run `argv` and return what it said; it is ended when `interrupt` raises."""
    launch = _launch(target, release)
    beside = _running_replica(target, release)
    config = _config(target, launch, argv, bounds, beside)
    api = target.engine.api
    with target.engine.told(f"cannot run a command for {release}"):
        made = api.create_container_from_config(config)["Id"]
        try:
            api.start(made)
            timed_out = not _ended(api, made, bounds)
            code = TIMED_OUT if timed_out else int(api.inspect_container(made)["State"]["ExitCode"])
            said = [_tail(api, made, stream) for stream in ("stdout", "stderr")]
        finally:
            with contextlib.suppress(Missing), target.engine.told("cannot remove"):
                api.remove_container(made, force=True)
    late = f"stopped after {bounds.timeout_s:g} s\n" if timed_out else ""
    return CommandResult(code, launch.redacted(said[0]), launch.redacted(said[1] + late))


def _ended(api: Any, container: str, bounds: Bounds) -> bool:
    """Wait for its end; False when the time limit passed first."""
    deadline = time.monotonic() + bounds.timeout_s
    while time.monotonic() < deadline:
        if not api.inspect_container(container)["State"]["Running"]:
            return True
        if bounds.interrupt:
            bounds.interrupt()
        time.sleep(POLL_S)
    return False


def _tail(api: Any, container: str, stream: str) -> str:
    """The end of what it wrote."""
    wanted = {"stdout": stream == "stdout", "stderr": stream == "stderr"}
    text: bytes = api.logs(container, **wanted)
    return text[-OUTPUT_MAX_BYTES:].decode(errors="replace")


def _launch(target: DockerTarget, release: str) -> Launch:
    kept = target.storage.read(f"releases/{release}/release.json")
    if kept is None:
        raise ConfigError(f"there is no release {release}", next_step="Run: opsctl releases list")
    launch = json.loads(kept.data)["launch"]
    secrets = SecretStore(target.storage).load(release) if launch["secrets"] else {}
    return launching.of_dict(release, launch, secrets)


def _running_replica(target: DockerTarget, release: str) -> str:
    """A replica's name whose network the command shares; empty when none runs."""
    for replica in target.observe().replicas:
        if replica.release == release and replica.pid:
            return replica.name
    return ""


def _config(
    target: DockerTarget, launch: Launch, argv: Sequence[str], bounds: Bounds, beside: str
) -> Any:
    names = target.names
    limits = Limits.from_dict(launch.container)
    one_port = launching.answers_on_one_port(launch)
    health_port = limits.port if one_port else limits.health_port
    seat = Seat(beside or f"{launch.release}-1", limits.port, health_port)
    project = target.project
    household = Household(project.service_name, project.environment, Layout(Path(STATE_DIR)), {})
    env = {**launching.command_environment(launch, seat, household), **bounds.env}
    network = f"container:{names.replica(beside)}" if beside else names.network
    recipe = Recipe(
        image=launch.image,
        command=launching.fill(argv, launch, seat),
        env=env,
        labels=names.labels(ERRAND_PART),
        limits=limits,
        memory_mb=launch.memory_mb,
        cpus=launch.cpus,
        directory=working_dir(launch.directory),
    )
    return config_of(recipe, names, network, _devices(target, limits, beside))


def _devices(target: DockerTarget, limits: Limits, beside: str) -> Mapping[str, Any]:
    """The NPUs of the replica that it stands beside: a command may use what its release holds."""
    if not limits.npus or not beside:
        return {}
    with target.engine.told("cannot look at the replica"):
        info = target.engine.api.inspect_container(target.names.replica(beside))
    held = info["Config"]["Labels"].get(NPUS, "").split()
    return npus.devices_of(limits.npus, map(int, held))
