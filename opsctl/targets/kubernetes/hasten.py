"""SIGTERM at once for pods that are to end and that nobody is sent to any more.

`kubernetes.pre_stop_s` has a pod wait before it gets SIGTERM, since balancers may still send users
there. Once the front door was seen to answer from others, only connections that users keep alive
are left, and an application closes those when it gets the signal.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.kubernetes.live import container_of, key_of

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

WAIT_S = 30.0
"""How long Kubernetes may take to tell a pod that it has to end."""

COMMAND_S = 5.0
SIGTERM = ("/bin/sh", "-c", "kill -TERM 1")
"""An image without a shell keeps its pods waiting."""


def hasten(target: KubernetesTarget, release: str) -> None:
    """Have the pods of a release that was told to end get the signal now; returns at once."""
    for pod in target.view.pods.all():
        if key_of(pod) == (release, "serving") and _waits_before(pod):
            name = pod["metadata"]["name"]
            arguments = (target, name, container_of(pod["spec"])["name"])
            threading.Thread(target=_tell, args=arguments, name="hasten", daemon=True).start()


def _waits_before(pod: Json) -> bool:
    return "preStop" in (container_of(pod["spec"]).get("lifecycle") or {})


def _tell(target: KubernetesTarget, pod: str, container: str) -> None:
    """Best effort: without it the pod ends a few seconds later."""

    def is_to_end(objects: Mapping[str, Json]) -> bool:
        found = objects.get(pod)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    with contextlib.suppress(TargetUnreachable):
        # Not before it is to end: Kubernetes would start its container again.
        if not target.view.pods.wait(is_to_end, WAIT_S) or target.view.pods.get(pod) is None:
            return
        query = [("container", container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in SIGTERM]
        client = target.api.command(target.names.path("pods", pod, "exec"), query)
        with contextlib.closing(client):
            client.run_forever(timeout=COMMAND_S)
