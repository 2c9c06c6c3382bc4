"""Looking at a service's objects: by watches, so that a loop that looks costs no request."""

from __future__ import annotations

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.kubernetes.api import Api, Missing
from opsctl.targets.kubernetes.live import Live, is_ready
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import Names

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
        self._events = Mirror(api, names.path("events"), "")
        self._has_routes: bool | None = None

    def look(self) -> Live:
        """All of it. Raises TargetUnreachable."""
        pods = self.pods.all()
        return Live(
            front=self.services.get(self._names.service),
            pods=pods,
            deployments=self.deployments.all(),
            events=self._events.all() if self._explains(pods) else (),
        )

    def refresh(self) -> None:
        """Know all that was written until now."""
        for mirror in (self.services, self.deployments, self.pods):
            mirror.refresh()

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

    def _explains(self, pods: list[Json]) -> bool:
        """Whether something is not ready, which an event may explain."""
        try:
            return not all(map(is_ready, pods)) and self._events.all() is not None
        except TargetUnreachable:
            return False  # who may not read events gets shorter explanations
