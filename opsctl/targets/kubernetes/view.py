"""Looking at a service's objects: by watches, so that a loop that looks costs no request."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.kubernetes.api import Api, Missing
from opsctl.targets.kubernetes.live import CONTAINER, Live, container_of, is_ready
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import Names

SILENT_S = 30.0
"""Who may not read events is not asked to again and again; explanations are shorter then."""

ROUTES = "/apis/gateway.networking.k8s.io/v1"


class View:
    """The objects of one service as they are now."""

    def __init__(self, api: Api, names: Names) -> None:
        self._api = api
        self._names = names
        chosen = names.installed
        self.pods = Mirror(api, names.path("pods"), chosen)
        self.services = Mirror(api, names.path("services"), chosen)
        self.deployments = Mirror(api, names.path("deployments"), chosen)
        self.routes = Mirror(api, names.path("httproutes"), chosen)
        self.mirrors = {"services": self.services, "httproutes": self.routes}
        """Those of what says where traffic goes, by kind."""
        self._events = Mirror(api, names.path("events"), "")
        self._has_routes: bool | None = None
        self._grouped: dict[str, list[Json]] = {}
        self._grouped_at = -1
        self._silent_until = 0.0
        self._begun = False

    def look(self, mode: str = "selector") -> Live:
        """All of it; with mode `route` the HTTPRoute too. Raises TargetUnreachable."""
        self._begin(mode)
        pods = self.pods.all()
        return Live(
            front=self.services.get(self._names.service),
            pods=pods,
            deployments=self.deployments.all(),
            events=self._by_object() if not all(map(is_ready, pods)) else {},
            route=self.routes.get(self._names.service) if mode == "route" else None,
        )

    def _begin(self, mode: str) -> None:
        """List all kinds at the same time: who is in a hurry waits for one answer, not for four."""
        if self._begun:
            return
        mirrors = [self.pods, self.services, self.deployments]
        if mode == "route":
            mirrors.append(self.routes)
        with ThreadPoolExecutor(len(mirrors)) as pool:
            list(pool.map(Mirror.begin, mirrors))
        self._begun = True

    def refresh(self) -> None:
        """Know all that was written until now."""
        for mirror in (self.services, self.deployments, self.pods):
            mirror.refresh()

    def container(self, pod: str) -> str:
        """The name of a pod's container that serves."""
        found = self.pods.get(pod)
        return str(container_of(found["spec"])["name"]) if found else CONTAINER

    def warnings(self) -> list[Json]:
        """Events of the namespace. Raises TargetUnreachable."""
        return self._events.all()

    @property
    def has_routes(self) -> bool:
        """Whether the cluster has the Gateway API."""
        if self._has_routes is None:
            try:
                kinds = self._api.get(ROUTES)["resources"]
                self._has_routes = any(kind["kind"] == "HTTPRoute" for kind in kinds)
            except Missing:
                self._has_routes = False
        return self._has_routes

    def _by_object(self) -> Mapping[str, Sequence[Json]]:
        """Events by the identity of their object; none where they must not be read."""
        if time.monotonic() < self._silent_until:
            return {}
        try:
            events = self._events.all()
        except TargetUnreachable:
            self._silent_until = time.monotonic() + SILENT_S
            return {}
        if self._events.count != self._grouped_at:
            self._grouped_at = self._events.count
            self._grouped = defaultdict(list)
            for event in events:
                self._grouped[event.get("involvedObject", {}).get("uid", "")].append(event)
        return self._grouped
