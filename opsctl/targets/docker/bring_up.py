"""Bringing a service's agent up on its host: network, volumes, image, container."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from opsctl import __version__
from opsctl.config.settings import Docker
from opsctl.errors import TargetUnreachable
from opsctl.targets.docker import agent_image
from opsctl.targets.docker.channel import Channel
from opsctl.targets.docker.container import log_config
from opsctl.targets.docker.engine import Engine, Missing, Refused
from opsctl.targets.docker.names import (
    AGENT_PART,
    BUILD,
    DOCKER_SOCKET,
    ERRAND_PART,
    MODELS_DIR,
    STATE_DIR,
    Names,
)

USER = "10001:10001"
"""Owner of the volumes; not root, but a member of the group that may use the engine's socket."""

ANSWER_LIMIT_S = 60.0
POLL_S = 0.05


class AgentSetup:
    """The agent of one service on one engine."""

    def __init__(
        self, engine: Engine, names: Names, settings: Docker, channel: Channel,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._names = names
        self._settings = settings
        self._channel = channel
        self._tell = tell

    def exists(self) -> bool:
        """Whether the host has state of the service. Raises TargetUnreachable."""
        try:
            with self._engine.told("cannot look at the state volume"):
                self._engine.api.inspect_volume(self._names.state_volume)
        except Missing:
            return False
        return True

    def ensure_running(self, *, newest: bool) -> None:
        """Make sure that an agent answers; with `newest` one of this opsctl or a newer version.

        Replicas and balancer stay as they are when the agent is replaced. Raises TargetUnreachable.
        """
        info = self._agent()
        if info is not None and newest and self._is_outdated(info):
            # Made while the old one is still in charge: that takes a minute.
            agent_image.require_image(self._engine, self._settings, self._tell)
            self._remove_agent()
            info = None
        if info is None:
            self._create()
        elif not info["State"]["Running"]:
            with self._engine.told("cannot start the agent"):
                self._engine.api.start(self._names.agent)
        self._await_answer()

    def remove_everything(self) -> None:
        """Remove containers, network and volumes of the service."""
        self._channel.close()
        api = self._engine.api
        # The agent goes first: it would start its replicas again.
        for part in (AGENT_PART, ""):
            with self._engine.told("cannot list the service's containers"):
                found = api.containers(all=True, filters=self._names.filters(part))
            for one in found:
                with contextlib.suppress(Missing), self._engine.told("cannot remove a container"):
                    api.remove_container(one["Id"], force=True, v=True)
        self._remove_network()
        for volume in self._volumes:
            with contextlib.suppress(Missing), self._engine.told(f"cannot remove {volume}"):
                api.remove_volume(volume)

    @property
    def _volumes(self) -> tuple[str, ...]:
        return (self._names.state_volume, self._names.run_volume, self._names.models_volume)

    def _agent(self) -> Any:
        try:
            with self._engine.told("cannot look at the agent"):
                return self._engine.api.inspect_container(self._names.agent)
        except Missing:
            return None

    def _is_outdated(self, info: Any) -> bool:
        """Whether the agent is of an older opsctl. A newer one's is left alone."""
        version, _, build = info["Config"]["Labels"].get(BUILD, "").partition(" ")
        if _version(version) != _version(__version__):
            return _version(version) < _version(__version__)
        return bool(build != self._build)

    @property
    def _build(self) -> str:
        return self._settings.agent_image or agent_image.build_digest(self._settings.agent_base)

    def _create(self) -> None:
        image = agent_image.require_image(self._engine, self._settings, self._tell)
        self._create_network()
        with self._engine.told("cannot create the service's volumes"):
            for volume in self._volumes:
                self._engine.api.create_volume(volume, labels=self._names.labels(AGENT_PART))
        config = self._config(image, self._socket_group(image))
        try:
            with self._engine.told("cannot create the agent's container"):
                self._engine.api.create_container_from_config(config, self._names.agent)
        except Refused:
            if self._agent() is None:
                raise
            # Another command was faster: its agent is as good as ours.
        with self._engine.told("cannot start the agent"):
            self._engine.api.start(self._names.agent)

    def _create_network(self) -> None:
        """A network of the service's own: no other container reaches its replicas."""
        with self._engine.told("cannot create the service's network"):
            if not self._engine.api.networks(names=[f"^{self._names.network}$"]):
                self._engine.api.create_network(
                    self._names.network, driver="bridge", labels=self._names.labels(AGENT_PART)
                )

    def _remove_network(self) -> None:
        with contextlib.suppress(Missing), self._engine.told("cannot remove the network"):
            self._engine.api.remove_network(self._names.network)

    def _socket_group(self, image: str) -> str:
        """The group that may use the engine's socket on its own machine."""
        config = {
            "Image": image,
            "Entrypoint": ["stat", "-c", "%g", DOCKER_SOCKET],
            "Labels": self._names.labels(ERRAND_PART),
            "HostConfig": {"NetworkMode": "none", "Binds": [self._socket_bind]},
        }
        api = self._engine.api
        with self._engine.told("cannot look at the engine's socket"):
            made = api.create_container_from_config(config)["Id"]
            try:
                api.start(made)
                api.wait(made)
                return str(api.logs(made, stderr=False).decode().strip())
            finally:
                api.remove_container(made, force=True)

    @property
    def _socket_bind(self) -> str:
        return f"{self._engine.socket_path}:{DOCKER_SOCKET}"

    def _config(self, image: str, group: str) -> dict[str, Any]:
        names = self._names
        volumes = (
            (names.state_volume, STATE_DIR),
            (names.run_volume, f"{STATE_DIR}/run"),
            (names.models_volume, MODELS_DIR),
        )
        return {
            "Image": image,
            "Cmd": ["--service", names.service],
            "User": USER,
            "Labels": names.labels(AGENT_PART, **{BUILD: f"{__version__} {self._build}"}),
            "HostConfig": {
                # It probes replicas, and says whether the front door's port is free.
                "NetworkMode": "host",
                "RestartPolicy": {"Name": "always"},
                "ReadonlyRootfs": True,
                "Tmpfs": {"/tmp": "rw,nosuid,nodev,noexec,size=16m"},
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges:true"],
                "PidsLimit": 256,
                "GroupAdd": [group],
                "LogConfig": log_config(self._settings.log_max_mb, self._settings.log_files),
                "Binds": [self._socket_bind],
                "Mounts": [
                    {"Type": "volume", "Source": source, "Target": where}
                    for source, where in volumes
                ],
            },
        }

    def _remove_agent(self) -> None:
        self._channel.close()
        with contextlib.suppress(Missing), self._engine.told("cannot replace the agent"):
            # SIGTERM first: what it has in memory is written down.
            self._engine.api.stop(self._names.agent, timeout=5)
            self._engine.api.remove_container(self._names.agent, force=True)

    def _await_answer(self) -> None:
        limit = time.monotonic() + ANSWER_LIMIT_S
        while True:
            try:
                self._channel.call({"call": "hello"})
                return
            except TargetUnreachable as error:
                if time.monotonic() > limit:
                    raise TargetUnreachable(
                        f"the agent did not start within {ANSWER_LIMIT_S:g} s",
                        why=self._last_words() or str(error),
                        next_step=f"See: docker logs {self._names.agent}",
                    ) from error
                time.sleep(POLL_S)

    def _last_words(self) -> str:
        with contextlib.suppress(TargetUnreachable), self._engine.told("cannot read the log"):
            text = self._engine.api.logs(self._names.agent, tail=5).decode(errors="replace")
            return " | ".join(text.split("\n")).strip()
        return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
