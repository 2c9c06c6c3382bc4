"""Who gets how much traffic now, from the state wanted and the replicas that are ready; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from opsctl.model import DesiredState, Share
from opsctl.targets.supervisor.haproxy_config import Server
from opsctl.targets.supervisor.weights import server_weights


@dataclass(frozen=True)
class Member:
    """A serving replica: whether it is ready, whether the state wants it, where it answers."""

    server: Server
    ready: bool
    wanted: bool

    @property
    def release(self) -> str:
        return self.server.release


def next_percents(
    state: DesiredState,
    in_force: Mapping[str, int],
    members: Iterable[Member],
    complete: Collection[str],
) -> dict[str, int]:
    """Percentages to put in force: those of `state`, or `in_force` while it is not ready for them.

    A release gains traffic only when all its replicas are ready; for one that once was
    `complete` a single ready replica is enough, so that a rollback never waits for a cripple.
    """
    ready: dict[str, int] = {}
    for member in members:
        ready[member.release] = ready.get(member.release, 0) + (member.ready and member.wanted)
    for share in state.shares:
        if share.weight > in_force.get(share.release, 0) and not _can_take(share, ready, complete):
            return dict(in_force)
    return {share.release: share.weight for share in state.shares if share.weight > 0}


def _can_take(share: Share, ready: Mapping[str, int], complete: Collection[str]) -> bool:
    count = ready.get(share.release, 0)
    return count >= share.replicas or (count > 0 and share.release in complete)


def placed(
    percents: Mapping[str, int], members: Collection[Member], present: Mapping[str, Server]
) -> dict[str, Server]:
    """All servers with weights for `percents`.

    A release's traffic goes to its ready replicas; while none is ready all keep their part, and
    the balancer's own checks decide. A server that lost all its traffic goes to maintenance,
    which moves sticky clients too.
    """
    carriers = {
        release: _carriers([m for m in members if m.release == release]) for release in percents
    }
    counts = {release: len(names) for release, names in carriers.items() if names}
    each = server_weights({r: p for r, p in percents.items() if r in counts}, counts)
    weights = {
        name: weight
        for release, values in each.items()
        for name, weight in zip(carriers[release], values, strict=True)
    }
    servers = {}
    for member in members:
        server = member.server
        before = present.get(server.name, server)
        off = percents.get(member.release, 0) == 0 and (before.maint or before.weight > 0)
        weight = weights.get(server.name, 0)
        servers[server.name] = dataclasses.replace(server, weight=weight, maint=off)
    return servers


def _carriers(members: Collection[Member]) -> list[str]:
    """Names of the replicas that carry a release's traffic, in order."""
    best = [m for m in members if m.ready and m.wanted] or [m for m in members if m.ready]
    return sorted(member.server.name for member in best or members)
