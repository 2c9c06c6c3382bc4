"""The Docker engine as a command reaches it: found like the `docker` command does, errors told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opsctl.config.settings import Docker
from opsctl.errors import ConfigError, TargetUnreachable

if TYPE_CHECKING:
    from docker import APIClient

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
ANSWER_TIMEOUT_S = 60.0
"""A busy engine takes seconds to create a container; pulls and builds have no such limit."""


class Missing(TargetUnreachable):
    """The engine has no such image, container, volume or network."""


class Refused(TargetUnreachable):
    """The engine answered, and said no."""


class Engine:
    """One Docker engine. Making one touches nothing."""

    def __init__(self, settings: Docker) -> None:
        self._context = settings.context

    @cached_property
    def address(self) -> str:
        """Its address. Raises ConfigError when a context that is asked for can't be read."""
        return str(self._parameters["base_url"])

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, so that its containers' addresses can be reached."""
        return self.address.startswith("unix://")

    @property
    def hostname(self) -> str:
        """Name or address of its machine."""
        return urlsplit(self.address).hostname or "127.0.0.1"

    @property
    def socket_path(self) -> str:
        """Where its socket lies on its own machine."""
        here = self.address.removeprefix("unix://")
        return here if self.is_here else DEFAULT_ADDRESS.removeprefix("unix://")

    @cached_property
    def api(self) -> APIClient:
        """The client, with the newest API version that both know. Raises TargetUnreachable."""
        import docker

        with self.told(f"cannot reach the Docker engine at {self.address}"):
            return docker.APIClient(
                **self._parameters, version="auto", timeout=ANSWER_TIMEOUT_S, use_ssh_client=True
            )

    @contextlib.contextmanager
    def lasting(self, what: str) -> Iterator[APIClient]:
        """A client without a time limit, for pulls, builds and streams; errors as in `told`."""
        import docker

        with self.told(what):
            client = docker.APIClient(
                **self._parameters, version=self.api.api_version, timeout=None, use_ssh_client=True
            )
            with contextlib.closing(client):
                yield client

    def close(self) -> None:
        """Close connections that are kept for the next question."""
        if "api" in self.__dict__:
            self.api.close()

    @contextlib.contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Turn the client's errors into ours: Missing, Refused, or TargetUnreachable."""
        import requests
        from docker.errors import APIError, DockerException, NotFound

        try:
            yield
        except NotFound as error:
            raise Missing(what, why=explained(error)) from error
        except APIError as error:
            raise Refused(what, why=explained(error)) from error
        except (DockerException, requests.RequestException, OSError) as error:
            raise TargetUnreachable(
                what,
                why=str(error),
                next_step="Start Docker, be a member of its group, or set DOCKER_HOST"
                " (docker.context in opsctl.yaml).",
            ) from error

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        """Address and TLS: DOCKER_HOST, else the context, as the `docker` command chooses."""
        import docker.errors
        from docker.context import ContextAPI
        from docker.utils import kwargs_from_env

        if not self._context and os.environ.get("DOCKER_HOST"):
            return dict(kwargs_from_env())
        name = self._context or os.environ.get("DOCKER_CONTEXT")
        try:
            found = ContextAPI.get_context(name)
        except (docker.errors.DockerException, OSError, ValueError) as error:
            raise ConfigError(f"the Docker context {name} can't be read", why=str(error)) from error
        if found is None:
            raise ConfigError(
                f"there is no Docker context {name}",
                next_step="See: docker context ls; or change docker.context in opsctl.yaml",
            )
        parameters: dict[str, Any] = {"base_url": found.Host or DEFAULT_ADDRESS}
        if found.TLSConfig:
            parameters["tls"] = found.TLSConfig
        return parameters


def explained(error: Any) -> str:
    """What an engine's error says: its own words, else the status."""
    return str(error.explanation or error)
