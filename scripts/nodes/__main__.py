"""scripts/cluster, once the parts are there: up, down, status, orders, enter, image."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from scripts.nodes import cluster, images, namespaces, orders
from scripts.nodes.layout import FILES_FOR_PEOPLE, STATE, Layout, Parts, load
from scripts.nodes.namespaces import NodeError

ORDERS = ("start", "stop", "kill", "freeze", "thaw")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 when it failed, 3 when `status` finds no cluster that is whole."""
    options = parse(argv)
    try:
        with alone():
            return int(options.do(options))
    except NodeError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


@contextmanager
def alone() -> Iterator[None]:
    """One command a checkout at a time."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    with STATE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/cluster")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    up = verbs.add_parser("up", help="start it and wait until it is ready")
    up.add_argument("--nodes", type=int, choices=range(1, 6), default=1, help="real kubelets")
    up.set_defaults(do=bring_up)
    verbs.add_parser("down", help="end it and remove all that it made").set_defaults(do=take_down)
    verbs.add_parser("status", help="what runs, and how to reach it").set_defaults(do=show_status)
    for verb in ORDERS:
        order = verbs.add_parser(verb, help=f"{verb} one component of a node")
        order.add_argument("component")
        order.add_argument("--node", type=int, default=1)
        order.set_defaults(do=give_order, verb=verb)
    enter = verbs.add_parser("pid", help="the first process of a node")
    enter.add_argument("--node", type=int, default=1)
    enter.set_defaults(do=enter_node)
    image = verbs.add_parser("image", help="make an image of a folder, in the cluster's registry")
    image.add_argument("name", help="NAME:TAG")
    image.add_argument("folder", type=Path)
    image.add_argument("entrypoint", nargs="+")
    image.set_defaults(do=make_image)
    return parser.parse_args(argv)


def bring_up(options: argparse.Namespace) -> int:
    """`up`: start the cluster and tell how to reach it."""
    if os.geteuid() != 0:
        raise NodeError("it needs root: namespaces, cgroups and mounts are made")
    started = time.monotonic()

    def tell(what: str) -> None:
        print(f"{what:<44} {time.monotonic() - started:7.1f} s", flush=True)

    parts = Parts(**{field.name: os.environ[f"PART_{field.name}"] for field in fields(Parts)})
    layout = cluster.up(parts, options.nodes, tell)
    print(f"up: {layout.api}; `. {FILES_FOR_PEOPLE}/env` sets KUBECONFIG and more")
    return 0


def take_down(options: argparse.Namespace) -> int:
    """`down`: end the cluster."""
    layout = load()
    if layout is not None:
        cluster.down(layout)
    print("down" if layout else "there was none")
    return 0


def show_status(options: argparse.Namespace) -> int:
    """`status`: each component, and how to reach the cluster."""
    layout = load()
    if layout is None or not cluster.is_whole(layout):
        print("no cluster of this checkout runs; start one with scripts/cluster up")
        return 3
    whole = True
    for node, name, state in cluster.states(layout):
        whole = whole and state["state"] == "runs"
        code = f" (exit {state['code']})" if state["state"] == "ended" else ""
        print(f"node{node}  {name:<24} {state['state']}{code}")
    print(f"{cluster.ready_nodes(layout)} of {layout.nodes} nodes ready · API {layout.api}")
    print(f". {FILES_FOR_PEOPLE}/env")
    print(f"logs: {STATE}/logs")
    return 0 if whole else 3


def running() -> Layout:
    """The cluster of this checkout. Raises NodeError when there is none."""
    layout = load()
    if layout is None:
        raise NodeError("no cluster of this checkout runs; start one with scripts/cluster up")
    return layout


def give_order(options: argparse.Namespace) -> int:
    """`start`, `stop`, … of one component."""
    print(orders.give(running(), options.node, options.verb, options.component)["state"])
    return 0


def enter_node(options: argparse.Namespace) -> int:
    """`pid`: the first process of a node, whose namespaces scripts/cluster enters."""
    process = namespaces.holder(running(), options.node)
    if process is None:
        raise NodeError(f"node{options.node} does not run")
    print(process.pid)
    return 0


def make_image(options: argparse.Namespace) -> int:
    """`image`: a folder becomes an image in the registry."""
    name, _, tag = options.name.partition(":")
    layout = running()
    image = images.Image(name, tag or "1", options.folder, options.entrypoint)
    print(f"{layout.registry}/{name}@{images.push(image, layout.registry)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
