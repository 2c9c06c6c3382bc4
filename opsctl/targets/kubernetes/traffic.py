"""Users' requests by release, from the counters that replicas show beside their health."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from opsctl.errors import TargetUnreachable
from opsctl.model import Json, Traffic
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.live import Live, is_ready, key_of
from opsctl.targets.kubernetes.names import Names

EVERY_S = 1.0
ASKED_AT_ONCE = 10
"""Replicas of a release that are asked in a turn: hundreds of them must not keep the API busy."""
REQUESTS = "inference_requests_total"
ERRORS = "inference_errors_total"
_SAMPLE = re.compile(rf"^({REQUESTS}|{ERRORS})(?:\{{[^}}]*\}})?\s+([0-9.eE+-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Pod:
    """A replica to ask."""

    name: str
    port: int
    release: str
    counts: bool
    """Whether its release has traffic: what benchmarks ask of others is no user's request."""


class Meter:
    """Counters of a service's releases since this process first asked; a thread keeps asking."""

    def __init__(self, api: Api, names: Names) -> None:
        self._api = api
        self._names = names
        self._lock = threading.Lock()
        self._pods: tuple[Pod, ...] = ()
        self._last: dict[str, tuple[int, int]] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._thread: threading.Thread | None = None

    def counted(self, live: Live) -> Json:
        """Fields of Observed: traffic by release, and of the front door."""
        weights = {share.release for share in live.in_force.shares if share.weight}
        pods = tuple(_pods(live, weights))
        with self._lock:
            self._pods = pods
            counts = dict(self._counts)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
            self._thread.start()
        traffic = tuple(
            Traffic(release, requests, errors)
            for release, (requests, errors) in sorted(counts.items())
        )
        return {
            "traffic": traffic,
            "front_requests": sum(one.requests for one in traffic),
            "front_errors": sum(one.errors for one in traffic),
        }

    def _run(self) -> None:
        pause = threading.Event()
        for turn in itertools.count():
            with self._lock:
                pods = self._pods
            for pod in due(pods, turn):
                self._ask(pod)
            pause.wait(EVERY_S)

    def _ask(self, pod: Pod) -> None:
        path = self._names.path("pods", f"{pod.name}:{pod.port}", "proxy/metrics")
        try:
            found = counters(self._api.text(path))
        except TargetUnreachable:
            return  # it has no counters, is gone, or we may not ask
        with self._lock:
            before = self._last.get(pod.name, found if not pod.counts else (0, 0))
            self._last[pod.name] = found
            if pod.counts:
                grown = [max(0, new - old) if new >= old else new
                         for new, old in zip(found, before, strict=True)]  # fmt: skip
                have = self._counts.get(pod.release, (0, 0))
                self._counts[pod.release] = (have[0] + grown[0], have[1] + grown[1])


def due(pods: Sequence[Pod], turn: int) -> list[Pod]:
    """Whom to ask in a turn: of each release so many, so that all have theirs one after the other.
    Counters only grow, so who is asked later is counted later, and nothing is lost."""
    found = []
    for release in sorted({pod.release for pod in pods}):
        own = [pod for pod in pods if pod.release == release]
        first = turn * ASKED_AT_ONCE % len(own)
        found += [*own[first:], *own[:first]][:ASKED_AT_ONCE]
    return found


def counters(text: str) -> tuple[int, int]:
    """Requests and errors that a Prometheus text tells, over all labels."""
    sums = {REQUESTS: 0.0, ERRORS: 0.0}
    for name, value in _SAMPLE.findall(text):
        sums[name] += float(value)
    return int(sums[REQUESTS]), int(sums[ERRORS])


def _pods(live: Live, weighted: set[str]) -> list[Pod]:
    found = []
    ports = {replica.name: replica.health_port for replica in live.replicas()}
    for pod in live.pods:
        release, role = key_of(pod)
        name = pod["metadata"]["name"]
        if role == "serving" and is_ready(pod) and ports.get(name):
            found.append(Pod(name, ports[name], release, release in weighted))
    return found
