"""What `depends_on` may name: services of the file, and no circles."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from opsctl.config.problems import nearest, shown

if TYPE_CHECKING:
    from opsctl.config.relations import Section
    from opsctl.config.settings import Service


def check(services: Mapping[str, Service], at: Section) -> None:
    """Note names that are none of a service, and circles."""
    for name, service in services.items():
        for index, needed in enumerate(service.depends_on):
            if needed not in services:
                near = nearest(needed, services)
                hint = f', did you mean "{near}"?' if near else ""
                what = f'there is no service "{shown(needed)}"{hint}'
                at.inside("services", name).wrong(f"depends_on[{index}]", what)
    try:
        TopologicalSorter({name: one.depends_on for name, one in services.items()}).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        at.inside("services", circle[0]).wrong("depends_on", f"a circle: {' → '.join(circle)}")
