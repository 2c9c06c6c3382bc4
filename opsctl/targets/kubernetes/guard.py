"""The resident guard of a service: `python -m opsctl.targets.kubernetes.guard`.

Runs as a small Deployment beside the service. When the holder of a rollout falls silent, it takes
an unproved candidate off traffic; while a rollout waits for a person, it watches the candidate; and
it stops releases whose rollback window is over. It changes the front Service (or the HTTPRoute) and
scales Deployments; everything else is left to the next command.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from types import FrameType

from opsctl.config.settings import Kubernetes
from opsctl.errors import ConfigError, OpsctlError, TargetUnreachable
from opsctl.model import DesiredState
from opsctl.targets.kubernetes import guarding, switch
from opsctl.targets.kubernetes.api import Api, Conflict
from opsctl.targets.kubernetes.desired import Order, spelled
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import GUARD, IN_FORCE, ORDER_PART, TAKEN, VALUES, Names
from opsctl.targets.kubernetes.orders import KEY, Orders
from opsctl.targets.kubernetes.storage import KubeStorage
from opsctl.targets.kubernetes.traffic import Meter
from opsctl.targets.kubernetes.view import View

TICK_S = 0.25
TRIES = 20


@dataclass
class Watched:
    """What is remembered of the release on trial since it was left alone."""

    stamp: object = None
    restarts: dict[str, int] = field(default_factory=dict)
    ill_since: float | None = None
    requests: int = 0
    errors: int = 0


class Sentry:
    """The guard of one service."""

    def __init__(self, names: Names, mode: str) -> None:
        self._names = names
        self._api = Api(Kubernetes())
        self._view = View(self._api, names)
        self._orders = Orders(self._api, names)
        self._storage = KubeStorage(self._api, names)
        self._meter = Meter(self._api, names)
        self._hand = switch.Hand(self._api, names, mode, self._base, GUARD)
        kept = names.kept(ORDER_PART)
        self._order = Mirror(self._api, names.path("configmaps"), kept)
        self._lease = Mirror(self._api, names.path("leases"), kept)
        self._beat: object = None
        self._beat_at = time.monotonic()
        self._watched = Watched()

    def look(self) -> None:
        """One look at everything, and what follows from it. Raises OpsctlError."""
        try:
            self._look()
        except TargetUnreachable:
            # Nobody can renew anything now: the holder's silence is counted from its end on.
            self._beat_at = time.monotonic()
            raise

    def _look(self) -> None:
        found = self._order.get(self._names.order)
        if found is None:
            return
        order = Order.from_dict(json.loads(found["data"][KEY]))
        live = self._view.look()
        reason = guarding.lease_reason(order, self._silence_s(order)) or self._trial(order, live)
        if reason and order.in_force.shares and not order.guarded:
            self._take_over(order, reason)
        if order.guarded:
            self._hold(order, live)
        self._retire(order, live)

    def _silence_s(self, order: Order) -> float:
        """How long the holder has shown nothing: neither a renewal nor another order. What is
        renewed while the watch is down is not seen, so that time does not count."""
        lease = self._lease.get(self._names.attendance)
        beat = (lease["metadata"]["resourceVersion"] if lease else "", order.stamp)
        if beat != self._beat or self._lease.is_blind:
            self._beat, self._beat_at = beat, time.monotonic()
        return time.monotonic() - self._beat_at

    def _trial(self, order: Order, live: Live) -> str:
        """Why a candidate that waits for a person has to go; empty when it may stay."""
        release = order.guard.on_trial
        if not order.guard.unattended or release is None or order.guarded:
            return ""
        if not order.state.weight(release):
            return ""
        replicas = [r for r in live.replicas() if (r.release, r.role) == (release, "serving")]
        counted = self._meter.counted(live)["traffic"]
        traffic = next((one for one in counted if one.release == release), None)
        seen = (traffic.requests, traffic.errors) if traffic else (0, 0)
        if self._watched.stamp != order.stamp:
            counts = {replica.name: replica.restarts for replica in replicas}
            self._watched = Watched(order.stamp, counts, None, *seen)
        watched = self._watched
        ready = sum(replica.phase == "ready" for replica in replicas)
        share = order.state.share(release)
        if share is not None and ready >= min(share.replicas, len(replicas)) and ready:
            watched.ill_since = None
        elif watched.ill_since is None:
            watched.ill_since = time.monotonic()
        ill_s = time.monotonic() - watched.ill_since if watched.ill_since is not None else 0.0
        restarts = sum(r.restarts - watched.restarts.get(r.name, 0) for r in replicas)
        trial = guarding.Trial(
            replicas, restarts, ill_s, seen[0] - watched.requests, seen[1] - watched.errors
        )
        return guarding.trial_reason(release, order.guard.limits, trial)

    def _take_over(self, order: Order, reason: str) -> None:
        if self._orders.guard_in_force(order, reason):
            say(f"took over: {reason}")

    def _hold(self, order: Order, live: Live) -> None:
        """Have the traffic as the safe state says."""
        wanted = guarding.off_traffic(live.in_force, order.guard.safe)
        if wanted is None or wanted == live.in_force:
            return
        switch.send(self._hand, live, wanted)
        say(f"traffic is as it was: {spelled(wanted)}")

    def _retire(self, order: Order, live: Live) -> None:
        """Stop warm releases whose window is over; the order forgets them."""
        state = guarding.retired(order.in_force, time.time())
        left_alone = order.guard.unattended or order.guarded
        if state == order.in_force or not left_alone:
            return
        gone = {s.release for s in order.in_force.shares} - {s.release for s in state.shares}
        changed = replace(order, state=state, guarded="")
        if order.guarded:
            changed = replace(order, guard=replace(order.guard, safe=state))
        if not self._orders.replace_order(order, changed):
            return
        for release in sorted(gone):
            switch.end(self._hand, release)
            say(f"{release} has retired")
        for _ in range(TRIES):
            if self._forgotten(gone):
                return

    def _forgotten(self, gone: set[str]) -> bool:
        """Whether the front Service knows those releases no more; False when somebody else has
        changed it meanwhile."""
        path = self._names.path("services", self._names.service)
        front = self._api.get(path)
        shares = Live(front, (), ()).in_force.shares
        left = DesiredState(tuple(s for s in shares if s.release not in gone))
        notes = {"annotations": {IN_FORCE: spelled(left), VALUES: TAKEN}}
        try:
            self._api.patch(path, {"metadata": {**switch.version(front), **notes}}, GUARD)
        except Conflict:
            return False
        return True

    def _base(self, release: str) -> str:
        kept = self._storage.read(f"releases/{release}/release.json")
        return str(json.loads(kept.data)["launch"]["container"].get("base", "")) if kept else ""


def say(text: str) -> None:
    """A line of the guard's log."""
    print(text, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Guard until SIGTERM."""
    parser = argparse.ArgumentParser(prog="opsctl-guard")
    parser.add_argument("--service", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--mode", choices=("route", "selector"), required=True)
    options = parser.parse_args(argv)
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    sentry = Sentry(Names(options.service, options.namespace), options.mode)
    say(f"guarding {options.service} in {options.namespace}")
    while not stop.wait(TICK_S):
        try:
            sentry.look()
        except TargetUnreachable as error:
            say(f"cannot look: {error}")
        except ConfigError as error:
            say(f"cannot act: {error}")
        except OpsctlError as error:
            say(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
