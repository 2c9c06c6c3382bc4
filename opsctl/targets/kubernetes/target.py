"""Target `kubernetes`: a service as Deployments of a namespace, put in force by Helm."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from opsctl.config.settings import Project
from opsctl.errors import OpsctlError, TargetUnreachable
from opsctl.model import DesiredState, Endpoint, Finding, Guard, Json, Observed, Role, Stamp
from opsctl.targets.kubernetes import desired, owners, values
from opsctl.targets.kubernetes.ahead import Ahead
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.desired import LINGER_S, NOTHING, Order, Scenery, next_state
from opsctl.targets.kubernetes.live import Live, front_weights
from opsctl.targets.kubernetes.names import BY_OPSCTL, GUARD, Names
from opsctl.targets.kubernetes.orders import Orders
from opsctl.targets.kubernetes.proof import Proof
from opsctl.targets.kubernetes.storage import KubeStorage
from opsctl.targets.kubernetes.view import View
from opsctl.targets.target import CommandResult

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.helm import Helm
    from opsctl.targets.kubernetes.traffic import Meter
    from opsctl.targets.kubernetes.tunnel import Tunnels

BEAT_S = 1.0
SEEN_S = 10.0
"""A watch tells of what Helm changed within milliseconds; after so long the objects are listed."""


class KubernetesTarget:
    """One service in one namespace. Making one touches nothing."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.settings = project.service.kubernetes
        self.names = Names.of(project)
        self.api = Api(self.settings)
        self.view = View(self.api, self.names)
        self.storage = KubeStorage(self.api, self.names)
        self.orders = Orders(self.api, self.names)
        self._own: Order | None = None
        """What this process ordered, and therefore carries out while it looks."""
        self.known_releases: dict[str, Json] = {}
        """Releases that were read already: they never change."""
        self.known_gateway: tuple[float, tuple[str, int]] | None = None
        """When the Gateway's address was read, and what it is."""
        self._flowing_since = time.monotonic()
        """When traffic last moved, as far as this process knows: it may just have been told."""
        self._moved = False
        """Whether this process has moved it: then the front door has to show that it has."""
        self._proof = Proof(self.front_door, self.settings.gateway.hostnames)
        self._ahead = Ahead(self)
        self._whole = False
        """Whether the newest revision is known to have come to its end."""
        self._helm: Helm | None = None
        self._tunnels: Tunnels | None = None
        self._meter: Meter | None = None

    def preflight(self, state: DesiredState) -> Sequence[Finding]:
        """What stands against `state` in this cluster."""
        from opsctl.targets.kubernetes.preflight import preflight

        return [*preflight(self, state), self._guarded()]

    def apply(self, state: DesiredState, stamp: Stamp, guard: Guard) -> None:
        """Order `state`; it is durable when this returns, and carried out while somebody looks.

        Raises Superseded for an older epoch, TargetUnreachable when nobody answers or Helm fails.
        """
        for share in state.shares:
            values.kept_release(self, share.release)
        order = Order(state, stamp, guard)
        self.orders.give(order)
        if self._own is None:
            from opsctl.targets.kubernetes import guard_setup

            guard_setup.ensure(self)
            if self.settings.bench_image is not None:
                from opsctl.targets.kubernetes import bench_job

                bench_job.remove(self)
        self._own = order
        with self._present(stamp.epoch):
            self._advance(order, self._look())

    def observe(self) -> Observed:
        """What runs now. An order of this process that is not yet carried out whole goes on."""
        order = self.orders.read() if self._own is None else self.orders.seen()
        live = self._look()
        if self._own is not None:
            if order.stamp != self._own.stamp or order.guarded:
                self.stop()  # somebody else is in charge, or the guard
            else:
                live = self._advance(order, live)
        return self._observed(order, live)

    def renew(self, epoch: int) -> None:
        """Renew the holder's lease. Raises Superseded."""
        self.orders.renew(epoch)

    def endpoints(self, release: str, role: Role = "serving") -> Sequence[Endpoint]:
        """Ways to the replicas of a release, through the API server, while this process lives."""
        if self._tunnels is None:
            from opsctl.targets.kubernetes.tunnel import Tunnels

            self._tunnels = Tunnels(self.api, self.names)
        replicas = [
            r for r in self.view.look().replicas() if (r.release, r.role) == (release, role)
        ]
        return [self._tunnels.to(replica) for replica in replicas if replica.phase == "ready"]

    def front_door(self) -> Endpoint:
        """Where users call. Raises TargetUnreachable while it has no address yet."""
        from opsctl.targets.kubernetes import front

        return front.door(self)

    def logs(self, release: str, *, lines: int = 100, follow: bool = False) -> Iterator[str]:
        """The last `lines` lines of each replica, led by its name; then new ones as they come."""
        from opsctl.targets.kubernetes import logs

        return logs.read(self, release, lines=lines, follow=follow)

    def run_in(
        self,
        release: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        interrupt: Callable[[], None] | None = None,
    ) -> CommandResult:
        """Run a command inside a ready replica of `release`."""
        from opsctl.targets.kubernetes import errand

        return errand.run(self, release, argv, errand.Bounds(env, timeout_s, interrupt))

    def events(self, release: str) -> Sequence[str]:
        """Events of the release's objects, oldest first."""
        from opsctl.targets.kubernetes import logs

        return logs.events(self, release)

    def down(self, epoch: int) -> None:
        """Remove everything but the state's record. Raises Superseded, TargetUnreachable."""
        from opsctl.targets.kubernetes import take_down

        take_down.run(self, epoch)
        self._proof.forget()

    def _guarded(self) -> Finding:
        if self.settings.guard_image is not None:
            return Finding("guard", "ok", self.settings.guard_image)
        said = "no guard: after a SIGKILL of opsctl a candidate keeps its traffic until resume"
        return Finding("guard", "warn", said, "Set kubernetes.guard_image")

    @property
    def mode(self) -> str:
        """How traffic is shared: `route` or `selector`."""
        wanted = self.settings.traffic
        if wanted == "auto":
            return "route" if self.view.has_routes else "selector"
        return wanted

    @property
    def helm(self) -> Helm:
        """The engine of releases."""
        if self._helm is None:
            from opsctl.targets.kubernetes.helm import Helm

            self._helm = Helm(self.api, self.names, self.settings)
        return self._helm

    def goal(self, state: DesiredState) -> DesiredState:
        """What of a state this cluster can put in force, and how it can share traffic."""
        shared = desired.by_selector(state) if self.mode == "selector" else state
        return desired.plain(shared)

    def stop(self) -> None:
        """Carry nothing out any more."""
        self._own = None

    def _advance(self, order: Order, live: Live) -> Live:
        """Put in force what comes next on the way to the order; the objects afterwards."""
        current = live.in_force
        goal, proved = self.goal(order.in_force), order.guard.safe.serving_release
        # A release that hangs is not asked, where nothing depends on its answer.
        lingered = not desired.shrinks(current, goal) or self._lingered(live)
        wanted = next_state(goal, Scenery(current, live.ready(), lingered, proved))
        if not wanted.shares and live.front is None:
            return live  # nothing was ever there, and nothing is wanted
        if self._ahead.is_enough(order, live, wanted):
            return live
        turns = desired.next_turns(live.turns, wanted, order.in_force)
        made = values.of_state(self, wanted, order, turns)
        self._whole = self._whole or self.helm.is_whole()
        edited = live.is_edited(values.selector(self, current), self.mode)
        if self._whole and values.mark_of(made) == live.mark and not edited:
            return live
        if not self._is_current(order):
            return live
        if self._ahead.switch(order, live, wanted):
            self._flowing_since, self._moved = time.monotonic(), True
            if order.guard.interim:
                return self._look()
        self._ahead.end(live, wanted)
        told = f"{BY_OPSCTL}{order.stamp.epoch}.{order.stamp.sequence}: {desired.described(wanted)}"
        self._whole = False
        try:
            owners.take_back(self.api, self.names, live)
            self.helm.upgrade(made, told)
        except TargetUnreachable:
            self.view.refresh()
            live = self._look()
            if self._is_current(order) and not live.is_managed_by(GUARD):
                raise
            return live  # the guard or another command stepped in meanwhile
        self._whole = True
        if desired.weights_of(wanted) != desired.weights_of(current):
            self._flowing_since, self._moved = time.monotonic(), True
        return self._seen(values.mark_of(made), wanted)

    def _look(self) -> Live:
        return self.view.look(self.mode)

    def _lingered(self, live: Live) -> bool:
        """Whether the traffic has been for long where the newest revision sends it. A Gateway that
        has not said so may still send requests elsewhere."""
        weights = desired.weights_of(live.in_force)
        routed = self.mode != "route" or live.routed == weights
        if not routed or not self._proof.holds(weights, live.silent()):
            self._flowing_since = time.monotonic()
            return False
        return time.monotonic() - self._flowing_since >= LINGER_S[self.mode]

    def _is_current(self, order: Order) -> bool:
        """Whether the order still is the one in force: a command that stood still must not undo
        what another has done meanwhile."""
        if self.orders.is_current(order):
            return True
        self.stop()
        return False

    @contextlib.contextmanager
    def _present(self, epoch: int) -> Iterator[None]:
        """Renew the lease for the length of a block: Helm may take longer than the guard waits."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(BEAT_S):
                with contextlib.suppress(OpsctlError):  # the next call notices it as well
                    self.orders.renew(epoch)

        thread = threading.Thread(target=beat, name="present", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _seen(self, mark: str, wanted: DesiredState) -> Live:
        """The objects once the watch has told of what Helm just did."""

        def shown(objects: Mapping[str, Json]) -> bool:
            return Live(objects.get(self.names.service), (), ()).mark == mark

        def routed(objects: Mapping[str, Json]) -> bool:
            now = replace(live, route=objects.get(self.names.service))
            return not now.is_edited(selector, self.mode)

        if not self.view.services.wait(shown, SEEN_S):
            self.view.refresh()
        live, selector = self._look(), values.selector(self, wanted)
        if self.mode == "route":
            self.view.routes.wait(routed, SEEN_S)
            live = self._look()
        if live.unexpected(wanted):
            from opsctl.targets.kubernetes import take_down

            take_down.reap(self, wanted)
        return live

    def _observed(self, order: Order, live: Live) -> Observed:
        if order == NOTHING and live.front is None:
            return Observed(Stamp(0, 0), DesiredState(), converged=True)
        shared = order.in_force
        if self.mode == "selector":
            shared = desired.by_selector(shared)
        goal = desired.ordered_by_name(desired.plain(shared))
        weights = front_weights(live, values.selector(self, live.in_force), self.mode)
        if self._moved and not self._proof.holds(weights, live.silent()):
            weights = {}
        return Observed(
            stamp=max(order.stamp, live.stamp),
            desired=values.as_scaled(self, shared, live),
            converged=(
                live.in_force == goal and weights == desired.weights_of(goal)
                and live.reached(values.as_scaled(self, goal, live)) and not order.guarded
            ),
            replicas=live.replicas(),
            balancer_up=live.front is not None,
            front_url=self._front_url(live),
            guarded=bool(order.guarded),
            guard_reason=order.guarded,
            weights=weights,
            trouble=self._trouble(order, live, goal),
            **self._counted(live),
        )  # fmt: skip

    def _trouble(self, order: Order, live: Live, goal: DesiredState) -> str:
        """What somebody has done with Helm itself, as far as it is not what was ordered."""
        if self._own is not None or order.guarded or live.in_force == goal:
            return ""
        made = self.helm.last_made()
        if made is None or made.by_opsctl:
            return ""
        return (
            f"revision {made.number} of Helm ({made.description}) is not opsctl's: it has"
            f" {desired.described(live.in_force)} in force, and {desired.described(goal)} was"
            " ordered; opsctl resume puts that back"
        )

    def _front_url(self, live: Live) -> str:
        from opsctl.targets.kubernetes import front

        try:
            return front.door_of(self, live.front).url if live.front else ""
        except TargetUnreachable:
            return ""

    def _counted(self, live: Live) -> Json:
        """Users' requests by release, from the replicas' own counters."""
        if self._own is None:
            return {}
        if self._meter is None:
            from opsctl.targets.kubernetes.traffic import Meter

            self._meter = Meter(self.api, self.names)
        return self._meter.counted(live)
