"""The order in force, in the namespace: a compare-and-swap shuts out who is no longer in charge.

Whoever applies writes here first. A writer with an older epoch (or an older record) is refused
before it reaches Helm, also when it was frozen and wakes up.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from dataclasses import replace

from opsctl.errors import Superseded, TargetUnreachable
from opsctl.model import Json
from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.desired import NOTHING, Order
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import ORDER_PART, Names

KEY = "order"
EPOCH = "opsctl/epoch"
TRIES = 50
FRESH_S = 0.5
"""What was told so short a time ago is true enough: nobody takes charge within it, who would have
to see the lock stand still for much longer."""


class Orders:
    """The order of one service."""

    def __init__(self, api: Api, names: Names) -> None:
        self._api = api
        self._names = names
        self._path = names.path("configmaps", names.order)
        self._mirror = Mirror(api, names.path("configmaps"), names.kept(ORDER_PART))
        self._lock = threading.RLock()
        """The thread that renews the lease reads as well."""
        self._known: Json | None = None
        self._told_at = 0.0
        """When what is known was so at the latest, on this machine's clock."""
        self._epoch = 0

    def read(self) -> Order:
        """The order in force now, asked of the API server."""
        with self._lock:
            asked = time.monotonic()
            try:
                self._known = self._api.get(self._path)
            except Missing:
                self._known = None
            self._told_at = asked
            return self._order()

    def is_current(self, wanted: Order) -> bool:
        """Whether the order still is the one in force, and no guard has stepped in."""
        with self._lock:
            fresh = time.monotonic() - self._told_at < FRESH_S
            known = self._order() if fresh else self.read()
        return known.stamp == wanted.stamp and not known.guarded

    def seen(self) -> Order:
        """The order in force as a watch tells it: no request, and a few milliseconds late."""
        found = self._mirror.get(self._names.order)
        return _order_of(found) if found else NOTHING

    def give(self, wanted: Order) -> None:
        """Order something. Raises Superseded when somebody newer is in charge."""
        for attempt in range(TRIES):
            if self._given(wanted, anew=attempt > 0):
                return
        raise TargetUnreachable("too many others order something", next_step="See: opsctl status")

    def _given(self, wanted: Order, *, anew: bool) -> bool:
        """One try; False when somebody else wrote meanwhile, as far as the order was known (it is
        asked for `anew`, or the first time). Raises Superseded."""
        with self._lock:
            known = self.read() if anew or self._known is None else self._order()
            stamp, before = wanted.stamp, known.stamp
            older = (stamp.epoch, stamp.sequence) < (before.epoch, before.sequence)
            if stamp.epoch < known.fence or older:
                raise _superseded(stamp.epoch, max(known.fence, before.epoch))
            fence = max(stamp.epoch, known.fence)
            done = self._write(replace(wanted, fence=fence))
            self._epoch = fence if done else self._epoch
            return done

    def shut_out(self, epoch: int) -> None:
        """From now on refuse epochs below this one. Raises Superseded when it is too old itself."""
        if epoch == self._epoch:
            return
        for _ in range(TRIES):
            with self._lock:
                known = self.read()
                if epoch < known.fence:
                    raise _superseded(epoch, known.fence)
                if epoch == known.fence or self._write(replace(known, fence=epoch)):
                    self._epoch = epoch
                    return

    def guard_in_force(self, seen: Order, reason: str) -> bool:
        """Put the guard's safe state in force, unless something newer was ordered meanwhile."""
        return self.replace_order(seen, replace(seen, guarded=reason))

    def replace_order(self, seen: Order, wanted: Order) -> bool:
        """Put an order in the place of exactly the one that was seen; False when it is another."""
        with self._lock:
            return self.read() == seen and self._write(wanted)

    def renew(self, epoch: int) -> None:
        """Show that the holder of this epoch is there. Raises Superseded."""
        self.shut_out(epoch)
        path = self._names.path("leases", self._names.attendance)
        body = {"metadata": {"annotations": {EPOCH: str(epoch)}}, "spec": {"renewTime": _now()}}
        try:
            found = self._api.patch(path, body)
        except Missing:
            self._make_lease(body)
            return
        shown = int(found["metadata"]["annotations"][EPOCH])
        fence = self.read().fence
        if max(shown, fence) > epoch:
            raise _superseded(epoch, max(shown, fence))

    def _make_lease(self, body: Json) -> None:
        metadata = {
            **body["metadata"],
            "name": self._names.attendance,
            "namespace": self._names.namespace,
            "labels": self._names.labels(ORDER_PART),
        }
        made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body,
                "metadata": metadata}  # fmt: skip
        try:
            self._api.post(self._names.path("leases"), made)
        except Conflict:
            return

    def _order(self) -> Order:
        return _order_of(self._known) if self._known else NOTHING

    def _write(self, order: Order) -> bool:
        """Whether it was written; False when somebody else was faster."""
        data = {KEY: json.dumps(order.to_dict())}
        asked = time.monotonic()
        try:
            if self._known is None:
                metadata = {
                    "name": self._names.order,
                    "namespace": self._names.namespace,
                    "labels": self._names.labels(ORDER_PART),
                }
                made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                self._known = self._api.post(self._names.path("configmaps"), made)
            else:
                self._known = self._api.put(self._path, {**self._known, "data": data})
            self._mirror.put(self._known)
            self._told_at = asked
        except (Conflict, Missing):
            return False
        return True


def _order_of(found: Json) -> Order:
    return Order.from_dict(json.loads(found["data"][KEY]))


def _superseded(epoch: int, newer: int) -> Superseded:
    return Superseded(
        "another opsctl took charge of this service",
        why=f"its epoch is {newer}, this command's {epoch}",
        next_step="This command changed nothing since. See: opsctl status",
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
