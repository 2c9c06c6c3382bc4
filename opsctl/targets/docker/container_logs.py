"""Reading replicas' logs from the Docker engine."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.names import RELEASE, REPLICA, Names

LOOK_S = 1.0
"""How often new replicas are looked for while logs are followed."""


def read(engine: Engine, names: Names, release: str, *, lines: int, follow: bool) -> Iterator[str]:
    """The last `lines` lines of each replica of a release, then, with `follow`, new ones."""
    found = _containers(engine, names, release)
    for one in found:
        name = one["Labels"][REPLICA]
        with engine.told(f"cannot read the log of {name}"):
            text = engine.api.logs(one["Id"], tail=lines)
        for line in text.decode(errors="replace").splitlines():
            yield f"{name} {line}"
    if follow:
        yield from _followed(engine, names, release, {one["Id"] for one in found})


def _followed(engine: Engine, names: Names, release: str, known: set[str]) -> Iterator[str]:
    """New lines of all replicas as they come; replicas that are made meanwhile join."""
    lines: queue.Queue[str] = queue.Queue()
    followed: set[str] = set()
    while True:
        for one in _containers(engine, names, release):
            if one["Id"] not in followed:
                followed.add(one["Id"])
                # Of one that was read already only what comes from now on.
                tail = 0 if one["Id"] in known else "all"
                arguments = (engine, one, tail, lines)
                threading.Thread(target=_pump, args=arguments, daemon=True).start()
        with contextlib.suppress(queue.Empty):
            while True:
                yield lines.get(timeout=LOOK_S)


def _pump(engine: Engine, one: Any, tail: int | str, lines: queue.Queue[str]) -> None:
    name, rest = one["Labels"][REPLICA], b""
    with contextlib.suppress(TargetUnreachable), engine.lasting("cannot follow the log") as api:
        stream = api.logs(one["Id"], stream=True, follow=True, tail=tail)
        for data in stream:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                lines.put(f"{name} {line.decode(errors='replace')}")


def _containers(engine: Engine, names: Names, release: str) -> list[Any]:
    """Containers of a release's replicas in the order of their numbers."""
    filters = names.filters()
    filters["label"].append(f"{RELEASE}={release}")
    with engine.told("cannot list the service's containers"):
        found = engine.api.containers(all=True, filters=filters)
    return sorted(found, key=lambda one: _order(one["Labels"][REPLICA]))


def _order(name: str) -> tuple[str, int]:
    role, number = name.rpartition("-")[2][:1], name.rpartition("-")[2].lstrip("b")
    return ("b" if role == "b" else "", int(number or 0))
