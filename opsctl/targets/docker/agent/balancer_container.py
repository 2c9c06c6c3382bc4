"""HAProxy as a container: on the host's own network, with the agent's folder `run` mounted.

On the host's network no address translation and no userland proxy stand between users and it: an
engine that restarts (live-restore) cuts no connection, and its port can change by a reload.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.agent.daemon import Daemon
from opsctl.targets.docker.agent.watched_container import ContainerHub, WatchedContainer
from opsctl.targets.docker.container import log_config
from opsctl.targets.docker.engine import Missing
from opsctl.targets.docker.names import BALANCER_PART, STATE_DIR, Names
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.runtime_api import Statistics

START_LIMIT_S = 15.0
POLL_S = 0.02
STOP_LIMIT_S = 3
RUN_DIR = f"{STATE_DIR}/run"


class BalancerContainer:
    """The balancer's container of one service."""

    def __init__(
        self, daemon: Daemon, hub: ContainerHub, names: Names, tell: Tell,
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._daemon = daemon
        self._hub = hub
        self._names = names
        self._tell = tell
        self._changed = changed
        self._watched: WatchedContainer | None = None
        self._watches: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> bool:
        return self._watched is not None and self._watched.running

    async def adopt(self) -> bool:
        """Take over the container that runs; False when there is none."""
        info = await self._inspect()
        if info is not None and _runs(info):
            self._watch(info)
        return self.up

    async def revived(self) -> bool:
        """Whether the engine, which restarts it too, was faster; it is taken over then."""
        return self.up or await self.adopt()

    async def check(self, haproxy: str, config_name: str) -> None:
        """Have HAProxy read a configuration. Raises TargetUnreachable when it refuses."""

        def ask(api: Any) -> tuple[int, str]:
            made = api.exec_create(self._names.balancer, [haproxy, "-c", "-q", "-f", config_name])
            output = api.exec_start(made["Id"]).decode(errors="replace")
            return api.exec_inspect(made["Id"])["ExitCode"], output

        code, output = await self._daemon.do("cannot check the balancer's settings", ask)
        if code != 0:
            why = " | ".join(output.strip().splitlines()[-3:])
            raise TargetUnreachable("HAProxy refuses its new settings", why=why)

    async def start(self, haproxy: str, counted: Callable[[Statistics], None]) -> None:
        """Start the container, or have its master begin a new HAProxy that takes over."""
        if self.up and self._watched is not None:
            old = (await runtime_api.statistics()).pid
            self._watched.signal(signal.SIGUSR2)
            await self._answers(counted, unlike=old)
            self._tell("", "load balancer reloaded with new settings")
            return
        info = await self._started(haproxy)
        watched = self._hub.watch(info)
        await self._answers(counted, of=watched)
        self._watch(info, watched)
        self._tell("", f"load balancer started: container {info['Id'][:12]}")

    def kill(self, why: str) -> None:
        """End a HAProxy that hangs; it is started again."""
        if self._watched is not None:
            self._tell("", f"the load balancer is killed: {why}")
            self._watched.signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End it: no new connections at once, what is left is cut after a moment."""
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.signal(signal.SIGUSR1)
            await watched.wait(STOP_LIMIT_S)
        with contextlib.suppress(Missing):
            await self._daemon.do(
                "cannot remove the balancer's container",
                lambda api: api.remove_container(self._names.balancer, force=True),
            )

    async def _started(self, haproxy: str) -> Mapping[str, Any]:
        """A container that runs, made anew when there is none, it is of another image, or the
        engine waits longer and longer to start it again."""
        name = self._names.balancer
        image = await self._own_image()
        info = await self._inspect()
        if info is not None and (info["Image"] != image or info["State"].get("Restarting")):
            await self._daemon.do(
                "cannot replace the balancer's container",
                lambda api: api.remove_container(name, force=True),
            )
            info = None
        if info is None:
            config = balancer_config(self._names, image, haproxy)
            await self._daemon.do(
                "cannot create the balancer's container",
                lambda api: api.create_container_from_config(config, name),
            )
        await self._daemon.do("cannot start the balancer", lambda api: api.start(name))
        info = await self._inspect()
        if info is None:
            raise TargetUnreachable("the balancer's container went away as it started")
        return info

    async def _own_image(self) -> str:
        """Agent and balancer are of one image."""
        info = await self._daemon.do(
            "cannot look at the agent's container",
            lambda api: api.inspect_container(self._names.agent),
        )
        return str(info["Image"])

    async def _answers(
        self,
        counted: Callable[[Statistics], None],
        *,
        of: WatchedContainer | None = None,
        unlike: int = 0,
    ) -> None:
        """Wait until the new HAProxy answers on its socket (a process other than `unlike`)."""
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit and (of is None or of.running):
            with contextlib.suppress(TargetUnreachable):
                seen = await runtime_api.statistics()
                if seen.pid != unlike:
                    return
                counted(seen)
            await asyncio.sleep(POLL_S)
        raise TargetUnreachable(
            "HAProxy did not start",
            why=of.last_lines if of else "it still runs with its old settings",
            next_step=f"See: docker logs {self._names.balancer}",
        )

    def _watch(self, info: Mapping[str, Any], watched: WatchedContainer | None = None) -> None:
        """Have the loop look at once when it ends."""
        self._watched = mine = watched or self._hub.watch(info)

        async def until_end() -> None:
            await mine.exited
            if mine is self._watched:
                self._tell("", "the load balancer's container ended; it is started again")
                self._changed()

        task = asyncio.create_task(until_end())
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)

    async def _inspect(self) -> Mapping[str, Any] | None:
        try:
            info: Mapping[str, Any] = await self._daemon.do(
                "cannot look at the balancer's container",
                lambda api: api.inspect_container(self._names.balancer),
            )
        except Missing:
            return None
        return info


def _runs(info: Mapping[str, Any]) -> bool:
    """An engine counts one that it is about to start again as running."""
    return bool(info["State"]["Running"] and not info["State"].get("Restarting"))


def balancer_config(names: Names, image: str, haproxy: str) -> dict[str, Any]:
    """The body of `POST /containers/create`. Master and worker, so that it can be reloaded."""
    return {
        "Image": image,
        "Entrypoint": [haproxy],
        "Cmd": ["-W", "-db", "-f", "haproxy.cfg"],
        "WorkingDir": RUN_DIR,
        "Labels": names.labels(BALANCER_PART),
        "StopSignal": "SIGUSR1",
        "HostConfig": {
            "NetworkMode": "host",
            # The agent starts it again when it dies; the daemon does when the machine starts, so
            # that users are answered (by whatever the file says) before the agent is up.
            "RestartPolicy": {"Name": "always"},
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "rw,nosuid,nodev,noexec,size=16m"},
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "PidsLimit": 128,
            "LogConfig": log_config(20, 5),
            "Mounts": [{"Type": "volume", "Source": names.run_volume, "Target": RUN_DIR}],
        },
    }
