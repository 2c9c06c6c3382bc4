"""What everything of a service is called in its namespace, and the labels that tell it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from opsctl.config.settings import Project
from opsctl.render.service_values import secret_name

SERVICE = "opsctl/service"
"""Label of all that opsctl itself keeps of a service (the chart's objects have its instance)."""
PART = "opsctl/part"
FOLDER = "opsctl/folder"
"""Label: the folder of an entry of the state."""
PATH = "opsctl/path"
"""Annotation: an entry's path."""

STATE_PART = "state"
SECRET_PART = "secret"
ORDER_PART = "order"

INSTANCE = "app.kubernetes.io/instance"
NAME = "app.kubernetes.io/name"
RELEASE = "opsctl/release"
ROLE = "opsctl/role"
IN_FORCE = "opsctl/state"
"""Annotation of the front Service: the shares that its revision put in force."""
TURNS = "opsctl/turns"
"""Annotation of the front Service: how often each release's pods were made anew."""
TURN = "opsctl/turn"
"""Annotation of pods: another one, other pods."""
VALUES = "opsctl/values"
"""Annotation of the front Service: digest of all values but the stamp."""
TAKEN = "guard"
"""Digest of values that no revision of Helm has: what stands there was changed ahead of Helm, by
the guard or by a command in a hurry."""

BY_OPSCTL = "opsctl "
"""Descriptions of our revisions of Helm begin with it."""

GUARD = "opsctl-guard"
"""Manager of the fields that the guard changes."""

SWITCH = "opsctl-switch"
"""Manager of the fields that a command changes ahead of Helm."""

SLUG_MAX = 150


@dataclass(frozen=True)
class Names:
    """The names of one service in its namespace."""

    service: str
    namespace: str

    @classmethod
    def of(cls, project: Project) -> Names:
        """The names of a project's service."""
        return cls(project.service_name, project.service.kubernetes.namespace)

    @property
    def label(self) -> str:
        """Where the service is, for messages."""
        return f"kubernetes:{self.namespace}/{self.service}"

    @property
    def lock(self) -> str:
        """The Lease of whoever works on the service."""
        return f"opsctl-{self.service}"

    @property
    def attendance(self) -> str:
        """The Lease that the holder of a rollout renews."""
        return f"opsctl-{self.service}-attendance"

    @property
    def order(self) -> str:
        """The ConfigMap with what was ordered last."""
        return f"opsctl-{self.service}-order"

    def entry(self, path: str, part: int = 0) -> str:
        """The object of an entry: readable, and unlike that of any other path."""
        slug = re.sub(r"[^a-z0-9.]+", "-", path.lower().replace("/", "."))[:SLUG_MAX].strip("-.")
        mark = hashlib.sha256(path.encode()).hexdigest()[:8]
        more = f".{part}" if part else ""
        return f"opsctl-{self.service}.{slug}-{mark}{more}"

    def secret(self, release: str) -> str:
        """The Secret that the pods of a release take variables from."""
        return secret_name(self.service, release)

    def workload(self, release: str, role: str = "serving") -> str:
        """Deployment and Service of a release."""
        return f"{self.service}-{release}{'-baseline' if role == 'baseline' else ''}"

    def labels(self, part: str) -> dict[str, str]:
        """Labels of what opsctl itself keeps."""
        return {
            SERVICE: self.service,
            PART: part,
            "app.kubernetes.io/managed-by": "opsctl",
        }

    def kept(self, part: str = "") -> str:
        """Selector of what opsctl itself keeps, or of one part of it."""
        return f"{SERVICE}={self.service}" + (f",{PART}={part}" if part else "")

    @property
    def installed(self) -> str:
        """Selector of the chart's objects."""
        return f"{INSTANCE}={self.service},{NAME}={self.service}"

    def path(self, kind: str, name: str = "", more: str = "") -> str:
        """URL path of objects of the namespace."""
        tail = (f"/{name}" if name else "") + (f"/{more}" if more else "")
        return f"{GROUPS[kind]}/namespaces/{self.namespace}/{kind}{tail}"


GROUPS = {
    "configmaps": "/api/v1",
    "deployments": "/apis/apps/v1",
    "events": "/api/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "httproutes": "/apis/gateway.networking.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "pods": "/api/v1",
    "replicasets": "/apis/apps/v1",
    "secrets": "/api/v1",
    "services": "/api/v1",
}
"""Where the API has each kind of object."""
