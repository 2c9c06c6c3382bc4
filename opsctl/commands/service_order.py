"""Pure: which services are deployed before which others, by `depends_on`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import TopologicalSorter

from opsctl.config.settings import Service


def in_order(services: Mapping[str, Service], chosen: Collection[str]) -> TopologicalSorter[str]:
    """The chosen ones, each to come after those of them that it needs, by way of others as well.

    Prepared. Raises graphlib.CycleError.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name in chosen:
        sorter.add(name, *sorted(_needed(services, name) & set(chosen)))
    sorter.prepare()
    return sorter


def _needed(services: Mapping[str, Service], name: str) -> set[str]:
    """All that a service depends on, directly or not; itself too when it stands in a circle."""
    found: set[str] = set()
    ahead = list(services[name].depends_on)
    while ahead:
        one = ahead.pop()
        if one not in found and one in services:
            found.add(one)
            ahead.extend(services[one].depends_on)
    return found
