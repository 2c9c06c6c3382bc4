"""Which services of a wave come before which others."""

from __future__ import annotations

from dataclasses import replace

from opsctl.commands.service_order import in_order
from opsctl.config.settings import App, Service

SERVICE = Service(app=App(directory="app", command=("{python}", "main.py")))
FOUR = {
    "web": replace(SERVICE, depends_on=("api",)),
    "api": replace(SERVICE, depends_on=("cache", "store")),
    "cache": SERVICE,
    "store": SERVICE,
}


def rounds(*chosen: str) -> list[set[str]]:
    """What may be deployed at the same time, one after the other."""
    order = in_order(FOUR, chosen)
    found = []
    while order.is_active():
        ready = order.get_ready()
        found.append(set(ready))
        order.done(*ready)
    return found


def test_each_comes_after_what_it_depends_on() -> None:
    assert rounds("web", "api", "cache", "store") == [{"cache", "store"}, {"api"}, {"web"}]


def test_one_that_is_left_out_still_orders_the_others() -> None:
    assert rounds("web", "store") == [{"store"}, {"web"}]
    assert rounds("api") == [{"api"}]
