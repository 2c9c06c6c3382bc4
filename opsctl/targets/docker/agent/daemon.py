"""The Docker engine as the agent asks it: each call in a thread, events as they come."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.engine import Missing, Refused, explained
from opsctl.targets.docker.names import DOCKER_SOCKET

T = TypeVar("T")
Event = Mapping[str, Any]

THREADS = 16
"""Containers are created and stopped side by side; a thread waits while the engine works."""

ANSWER_TIMEOUT_S = 60.0
RETRY_S = 0.5
SILENT_LIMIT_S = 20.0
"""An engine that can't be reached for so long has restarted with a new socket, which only a new
start of the agent's container brings into it."""


class Daemon:
    """The engine on the other side of the mounted socket."""

    def __init__(self, address: str = f"unix://{DOCKER_SOCKET}") -> None:
        self._address = address
        self._threads = ThreadPoolExecutor(THREADS, "docker")
        self._local = threading.local()
        self._unreachable_since: float | None = None

    @property
    def silent_s(self) -> float:
        """For how long nothing could be asked."""
        since = self._unreachable_since
        return 0.0 if since is None else time.monotonic() - since

    async def do(self, what: str, action: Callable[[docker.APIClient], T]) -> T:
        """The result of an action. Raises Missing, Refused or TargetUnreachable, led by `what`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._do, what, action)

    def watch(self, filters: Mapping[str, Any], took: Callable[[Event | None], None]) -> None:
        """Have `took` called in the loop for each event; None: some may have been missed."""
        loop = asyncio.get_running_loop()

        def tell(event: Event | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(took, event)

        def listen() -> None:
            while not loop.is_closed():
                try:
                    client = docker.APIClient(self._address, version="auto", timeout=None)
                    stream = client.events(filters=dict(filters), decode=True)
                    tell(None)
                    for event in stream:
                        tell(event)
                except (DockerException, requests.RequestException, OSError, RuntimeError):
                    pass  # the engine restarts; RuntimeError: our own loop has just ended
                time.sleep(RETRY_S)

        threading.Thread(target=listen, name="docker events", daemon=True).start()

    def _do(self, what: str, action: Callable[[docker.APIClient], T]) -> T:
        try:
            result = action(self._client())
        except NotFound as error:
            self._unreachable_since = None
            raise Missing(what, why=explained(error)) from error
        except APIError as error:
            self._unreachable_since = None
            raise Refused(what, why=explained(error)) from error
        except (DockerException, requests.RequestException, OSError) as error:
            self._unreachable_since = self._unreachable_since or time.monotonic()
            raise TargetUnreachable(
                what, why=f"the Docker engine does not answer: {error}"
            ) from error
        self._unreachable_since = None
        return result

    def _client(self) -> docker.APIClient:
        """One a thread: the library does not promise that threads may share a client."""
        if not hasattr(self._local, "client"):
            self._local.client = docker.APIClient(
                self._address, version="auto", timeout=ANSWER_TIMEOUT_S
            )
        client: docker.APIClient = self._local.client
        return client
