"""What a release's replicas said, and what happened to them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opsctl.errors import TargetUnreachable
from opsctl.model import Json, Replica
from opsctl.targets.kubernetes.live import key_of

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

FOLLOW_S = 3600
LOOK_S = 1.0


def read(target: KubernetesTarget, release: str, *, lines: int, follow: bool) -> Iterator[str]:
    """The last lines of each replica, led by its name; then new ones as they come."""
    replicas = [r for r in target.view.look().replicas() if r.release == release]
    for replica in replicas:
        yield from (f"{replica.name} {line}" for line in _last(target, replica, lines))
    if follow:
        yield from _follow(target, release)


def events(target: KubernetesTarget, release: str) -> list[str]:
    """Events of the release's Deployment, replica sets and pods, oldest first."""
    heads = tuple(target.names.workload(release, role) for role in ("serving", "baseline"))
    found = [
        event for event in target.view.warnings()
        if _is_of(str(event["involvedObject"].get("name", "")), heads)
    ]  # fmt: skip
    return [_told(event) for event in sorted(found, key=_time)]


def _is_of(name: str, heads: tuple[str, ...]) -> bool:
    return any(name == head or name.startswith(f"{head}-") for head in heads)


def _time(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _told(event: Json) -> str:
    times = f" ({event['count']} times)" if (event.get("count") or 1) > 1 else ""
    name = event["involvedObject"].get("name", "")
    return f"{_time(event)} {name} {event.get('reason')}: {event.get('message')}{times}"


def _last(target: KubernetesTarget, replica: Replica, lines: int) -> list[str]:
    """The end of a log; of a container that was started again also the end of the run before."""
    found: list[str] = []
    if replica.restarts and replica.phase != "ready":
        found += _log(target, replica.name, lines, previous="true")
    found += _log(target, replica.name, lines)
    return found[-lines:]


def _log(target: KubernetesTarget, pod: str, lines: int, **query: str) -> list[str]:
    path = target.names.path("pods", pod, "log")
    try:
        container = target.view.container(pod)
        text = target.api.text(path, container=container, tailLines=lines, **query)
    except TargetUnreachable:
        return []  # it has not begun, or is gone
    return text.splitlines()


def _follow(target: KubernetesTarget, release: str) -> Iterator[str]:
    """New lines of all replicas, also of those that come later; ends when none is left."""
    said: queue.Queue[str] = queue.Queue()
    readers: dict[str, threading.Thread] = {}

    def listen(pod: str) -> None:
        query = {"container": target.view.container(pod), "follow": "true", "tailLines": 0,
                 "timeoutSeconds": FOLLOW_S}  # fmt: skip
        try:
            for line in target.api.lines(target.names.path("pods", pod, "log"), **query):
                said.put(f"{pod} {line.decode(errors='replace')}")
        except TargetUnreachable:
            return

    while True:
        pods = [p for p in target.view.look().pods if key_of(p)[0] == release]
        for pod in (one["metadata"]["name"] for one in pods):
            if pod not in readers:
                readers[pod] = threading.Thread(target=listen, args=(pod,), daemon=True)
                readers[pod].start()
        if not pods and said.empty():
            return
        try:
            yield said.get(timeout=LOOK_S)
        except queue.Empty:
            continue
