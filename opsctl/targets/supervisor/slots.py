"""Which slot of HAProxy's file belongs to which replica; pure.

HAProxy's own way to add and delete servers at run time crashed it: in 2.6 a server may be deleted
while a stream still points at it. So the file has a fixed number of servers, its slots. A replica
is given one by an address, and none is ever deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

SLOTS_MIN = 32
"""A free slot costs HAProxy some KiB and no time; too few cost a reload. Eight replicas fit
four times: new, old, warm, and one more release on its way out."""

SLOTS_PER_REPLICA = 4


def enough_for(replicas: int) -> int:
    """Slots for a service whose state has so many serving replicas, with room for a rollout."""
    return max(SLOTS_MIN, SLOTS_PER_REPLICA * replicas)


class Slots:
    """The slots of one HAProxy. `held`: slot by replica."""

    def __init__(self, count: int = 0) -> None:
        self.held: dict[str, str] = {}
        self._count = 0
        self._free: list[str] = []
        """Longest free first, so that a slot rests as long as it can between two replicas."""
        self.grow(count)

    @property
    def names(self) -> list[str]:
        """All slots, in the order of the file."""
        return [f"s{number}" for number in range(1, self._count + 1)]

    def grow(self, count: int) -> None:
        """Have at least `count` slots."""
        self._free += [f"s{number}" for number in range(self._count + 1, count + 1)]
        self._count = max(self._count, count)

    def adopt(self, held: Mapping[str, str], count: int) -> None:
        """Take over what a running HAProxy has (nothing, when it has ended)."""
        self._count = count
        self.held = dict(held)
        self._free = [slot for slot in self.names if slot not in held.values()]

    def take(self, replicas: Iterable[str], busy: Collection[str]) -> bool:
        """Give a slot to each replica that has none; False when there are too few.

        `busy` slots are passed over: something of an earlier replica is still going on there.
        """
        missing = [name for name in replicas if name not in self.held]
        usable = [slot for slot in self._free if slot not in busy]
        if len(usable) < len(missing):
            return False
        for name, slot in zip(missing, usable, strict=False):
            self.held[name] = slot
            self._free.remove(slot)
        return True

    def give_back(self, replica: str) -> None:
        """Free the slot of a replica."""
        slot = self.held.pop(replica, None)
        if slot is not None:
            self._free.append(slot)
