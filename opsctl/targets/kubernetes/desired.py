"""Pure: from what was ordered and what runs to what Helm puts in force next.

Traffic only moves to a release all of whose replicas are ready, and a replica that had traffic only
goes when the traffic has been elsewhere for LINGER_S. So an order may take several revisions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from opsctl.model import FULL_WEIGHT, DesiredState, Guard, Json, Role, Share, Stamp

LINGER_S = {"route": 2.0, "selector": 0.0}
"""The last old answer came 1.2 s after a switch of an HTTPRoute (measured), so old replicas stay
longer than that. Behind a plain Service the time between its change and a pod's SIGTERM, and what
the pod answers until its end, are long enough."""

Ready = Mapping[tuple[str, Role], int]
"""Ready replicas by release and role."""


@dataclass(frozen=True)
class Order:
    """What was ordered last: it lies in the namespace, for whoever carries it out."""

    state: DesiredState
    stamp: Stamp
    guard: Guard
    fence: int = 0
    """The highest epoch that anybody has shown: older ones are refused."""
    guarded: str = ""
    """Why the guard has put its safe state in force; empty when it has not."""

    @property
    def in_force(self) -> DesiredState:
        """What should run: the state ordered, or the guard's."""
        return self.guard.safe if self.guarded else self.state

    def to_dict(self) -> Json:
        return {
            "state": self.state.to_dict(),
            "stamp": self.stamp.to_dict(),
            "guard": self.guard.to_dict(),
            "fence": self.fence,
            "guarded": self.guarded,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Order:
        return cls(
            DesiredState.from_dict(data["state"]),
            Stamp.from_dict(data["stamp"]),
            Guard.from_dict(data["guard"]),
            data["fence"],
            data["guarded"],
        )


NOTHING = Order(DesiredState(), Stamp(0, 0), Guard(DesiredState()))
"""Before the first order."""


def ordered_by_name(state: DesiredState) -> DesiredState:
    """The same state with its shares in the order in which revisions have them."""
    return DesiredState(tuple(sorted(state.shares, key=_key)))


def by_selector(state: DesiredState) -> DesiredState:
    """`state` as one Service can share it: the number of replicas is the share of traffic.

    Of two releases with traffic the smaller gives: it gets so many replicas as come nearest to
    its share beside the other's, one at least. Nothing is ever started beyond what was ordered.
    """
    weighted = sorted((s for s in state.shares if s.weight), key=lambda share: share.weight)
    if len(weighted) != 2:
        return state
    small, large = weighted
    wanted = round(large.replicas * small.weight / large.weight)
    return state.put(replace(small, replicas=max(1, min(small.replicas, wanted))))


@dataclass(frozen=True)
class Scenery:
    """What is known of the cluster when the next state is chosen."""

    current: DesiredState
    """What the newest revision put in force."""
    ready: Ready
    lingered: bool = True
    """The traffic has been where `current` says for LINGER_S."""
    proved: str | None = None
    """The release that served well before: it takes all traffic back also with a replica less."""


def next_state(goal: DesiredState, seen: Scenery) -> DesiredState:
    """What to put in force now on the way to `goal` (a plain state)."""
    now, wanted = weights_of(seen.current), weights_of(goal)
    weights = wanted if _may_flow(goal, seen) else now
    shares = {_key(share): _weighing(share, weights) for share in goal.shares}
    if not weights == now == wanted or not seen.lingered:
        for old in seen.current.shares:
            if old.role == "serving" and (old.weight or not seen.lingered):
                new = shares.get(_key(old), _weighing(old, weights))
                shares[_key(old)] = replace(new, replicas=max(old.replicas, new.replicas))
    return DesiredState(tuple(sorted(shares.values(), key=_key)))


def _may_flow(goal: DesiredState, seen: Scenery) -> bool:
    """Whether all that gets more traffic by `goal` can take it."""
    now = weights_of(seen.current)
    rising = [share for share in goal.shares if share.weight > now.get(share.release, 0)]
    if now and not any(seen.ready.get((release, "serving"), 0) for release in now):
        # Nobody answers any more: one replica that does is better.
        return all(seen.ready.get(_key(share), 0) for share in rising)
    for share in rising:
        ready = seen.ready.get(_key(share), 0)
        trusted = share.release == seen.proved and share.release in now and ready
        if ready < share.replicas and not trusted:
            return False
    return True


def _weighing(share: Share, weights: Mapping[str, int]) -> Share:
    weight = weights.get(share.release, 0) if share.role == "serving" else 0
    return replace(share, weight=weight)


def weights_of(state: DesiredState) -> dict[str, int]:
    """Percent of the traffic by release, of those that have any."""
    return {share.release: share.weight for share in state.shares if share.weight}


def is_at_hand(current: DesiredState, wanted: DesiredState) -> bool:
    """Whether `wanted` has the traffic elsewhere, and only with releases that run already."""
    running = {share.release for share in current.shares if share.role == "serving"}
    weights = weights_of(wanted)
    return bool(weights) and weights != weights_of(current) and weights.keys() <= running


def shrinks(current: DesiredState, goal: DesiredState) -> bool:
    """Whether anything that runs has to go, or to become less, on the way to `goal`."""
    wanted = {_key(share): share.replicas for share in goal.shares}
    return any(wanted.get(_key(share), 0) < share.replicas for share in current.shares)


def leaving(current: DesiredState, wanted: DesiredState) -> list[Share]:
    """What runs without traffic and is not wanted any more."""
    kept = {_key(share) for share in wanted.shares}
    return [share for share in current.shares if not share.weight and _key(share) not in kept]


def _key(share: Share) -> tuple[str, Role]:
    return share.release, share.role


Turns = Mapping[str, tuple[int, bool]]
"""By release: how often its pods were made anew, and whether they have had traffic since."""


def next_turns(turns: Turns, wanted: DesiredState, goal: DesiredState) -> Turns:
    """What becomes of `turns` when `wanted` is put in force on the way to `goal`.

    A release that is kept warm gets new pods when it has lost the traffic: connections that users
    keep alive would stay with the old ones for as long as those live.
    """
    found: dict[str, tuple[int, bool]] = {}
    for share in wanted.shares:
        if share.role != "serving":
            continue
        turn, used = turns.get(share.release, (0, False))
        kept = goal.share(share.release)
        if used and not share.weight and kept is not None and kept.retire_at is not None:
            turn, used = turn + 1, False
        found[share.release] = (turn, used or share.weight > 0)
    return found


def plain(state: DesiredState) -> DesiredState:
    """What of a state the chart can put in force: when a warm release retires, and which CPUs a
    benchmark shares, is nothing that a revision of Helm has."""
    return DesiredState(tuple(replace(s, retire_at=None, cpus=()) for s in state.shares))


def spelled(state: DesiredState) -> str:
    """A plain state on one line, as the front Service's annotation has it."""
    rows = [[s.release, s.role, s.replicas, s.weight] for s in state.shares]
    return json.dumps(rows, separators=(",", ":"))


def read_state(text: str) -> DesiredState:
    """The state of such a line; an empty one when it is none (or not ours)."""
    try:
        rows = json.loads(text)
        return DesiredState(tuple(Share(r[0], r[2], r[3], r[1]) for r in rows))
    except (ValueError, TypeError, IndexError, KeyError):
        return DesiredState()


def described(state: DesiredState) -> str:
    """A state in words, for `helm history`."""
    words = []
    for share in state.shares:
        role = " baseline" if share.role == "baseline" else ""
        part = f" {share.weight} %" if share.weight not in (0, FULL_WEIGHT) or role else ""
        part = " all traffic" if share.weight == FULL_WEIGHT else part
        words.append(f"{share.release}{role} ×{share.replicas}{part}")
    return ", ".join(words) or "nothing"
