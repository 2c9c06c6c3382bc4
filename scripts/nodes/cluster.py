"""Bring a cluster up and down."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opsctl import shell
from scripts.nodes import components, files, images, namespaces, orders
from scripts.nodes.layout import FILES_FOR_PEOPLE, STATE, Layout, Parts, load, save
from scripts.nodes.namespaces import NodeError

READY_TIMEOUT_S = 180.0
KUBECTL_TIMEOUT_S = 90.0
Tell = Callable[[str], None]


def up(parts: Parts, nodes: int, tell: Tell) -> Layout:
    """A cluster whose nodes are ready: the one that runs, or a new one. Raises NodeError."""
    found = load()
    if found is not None and is_whole(found):
        if found.nodes != nodes:
            raise NodeError(
                f"a cluster of {found.nodes} runs already: scripts/cluster down, then up again"
            )
        wait_ready(found)
        return found
    if found is not None:
        # Killed, or the machine was started again: nothing of it can be used.
        down(found)
    layout = Layout(f"opsctl-{secrets.token_hex(4)}", namespaces.claim_number(), nodes, parts)
    try:
        build(layout, tell)
    except BaseException:
        keep_logs()
        down(layout)
        raise
    return layout


def build(layout: Layout, tell: Tell) -> None:
    """Start everything, each part as soon as what it needs answers."""
    save(layout)
    namespaces.open_bridge(layout)
    for node in range(1, layout.nodes + 1):
        files.write_node(layout, node)
        namespaces.hold(layout, node)
        namespaces.connect(layout, node)
    files.write_control(layout)
    for name in ("etcd", "registry", "kube-apiserver"):
        orders.give(layout, 1, "start", name)
    push_images(layout)
    tell("the registry has the images")
    certificate = layout.control / "certificates" / "apiserver.crt"
    wait_until(certificate.exists, "the API server made its certificate")
    files.write_clients(layout)
    wait_until(lambda: api_answers(layout), "the API server is ready")
    tell("the API server is ready")
    for node in range(1, layout.nodes + 1):
        for name in components.names(node):
            orders.give(layout, node, "start", name)
    wait_ready(layout)
    write_environment(layout)
    tell("the nodes are ready")
    install_gateway(layout)
    tell("the Gateway API is installed")


def push_images(layout: Layout) -> None:
    """The sandbox of each pod, and the tests' small service."""
    host, port = layout.registry.split(":")
    wait_until(lambda: listens(host, int(port)), "the registry listens")
    for name in ("pause", "light"):
        folder = Path(layout.parts.images) / name
        images.push(images.Image(name, "1", folder, [f"/{name}"]), layout.registry)


def listens(host: str, port: int) -> bool:
    """Whether something takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
        return True
    return False


def api_answers(layout: Layout) -> bool:
    """Whether the API server says that it is ready."""
    with contextlib.suppress(OSError, urllib.error.HTTPError):
        token = json.loads((layout.control / "tokens.json").read_text())["admin"]
        request = urllib.request.Request(
            f"{layout.api}/readyz", headers={"Authorization": f"Bearer {token}"}
        )
        context = ssl.create_default_context(
            cafile=str(layout.control / "certificates" / "apiserver.crt")
        )
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    return False


def wait_ready(layout: Layout) -> None:
    """Wait until every node is ready and pods may be made in `default`."""
    wait_until(lambda: ready_nodes(layout) == layout.nodes, "all nodes are ready")
    command = ["get", "serviceaccount", "default", "--output", "name"]
    wait_until(lambda: kubectl(layout, *command, check=False) != "", "`default` has its account")


def ready_nodes(layout: Layout) -> int:
    """How many nodes say that they are ready."""
    names = [f"node{node}" for node in range(1, layout.nodes + 1)]
    form = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return sum(
        kubectl(layout, "get", "node", name, "--output", form, check=False) == "True"
        for name in names
    )


def install_gateway(layout: Layout) -> None:
    """The definitions of the Gateway API; they are too large for a client-side apply."""
    kubectl(layout, "apply", "--server-side", "--filename", layout.parts.gateway)
    kubectl(layout, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


def kubectl(layout: Layout, *arguments: str, check: bool = True) -> str:
    """What kubectl prints. Raises NodeError with its words."""
    program = f"{layout.parts.kubernetes}/kubectl"
    command = [program, "--kubeconfig", str(layout.kubeconfig), *arguments]
    done = shell.run(command, timeout_s=KUBECTL_TIMEOUT_S)
    if check and not done.ok:
        raise NodeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.why}")
    return done.stdout if done.ok else ""


def write_environment(layout: Layout) -> None:
    """build/cluster/env, to be sourced by a shell, and env.json for programs."""
    values = environment(layout)
    lines = [f"export {name}={value}" for name, value in values.items() if name != "PATH"]
    lines.append(f"export PATH={layout.parts.kubernetes}:$PATH")
    (FILES_FOR_PEOPLE / "env").write_text("\n".join(lines) + "\n")
    (FILES_FOR_PEOPLE / "env.json").write_text(json.dumps(values, indent=1))


def environment(layout: Layout) -> dict[str, str]:
    """What a client of the cluster sets."""
    caches = Path(layout.parts.kubernetes).parent
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "CLUSTER_ADDRESS": layout.address(1),
        "CLUSTER_REGISTRY": layout.registry,
        "CLUSTER_LIGHT_IMAGE": f"{layout.registry}/light:1",
        "CLUSTER_KUBECTL": f"{layout.parts.kubernetes}/kubectl",
        **{
            f"CLUSTER_HELM{name.name[6]}": f"{name}/helm" for name in sorted(caches.glob("helm-v*"))
        },
        "CLUSTER_KWOK": f"{layout.parts.kwok}/kwok",
        "CLUSTER_KWOK_STAGES": f"{layout.parts.kwok}/stage",
        "CLUSTER_MONITORING_KINDS": layout.parts.monitoring,
        "PATH": f"{layout.parts.kubernetes}:{os.environ.get('PATH', '')}",
    }


def is_whole(layout: Layout) -> bool:
    """Whether the first process of each node lives and `up` came to its end."""
    nodes = range(1, layout.nodes + 1)
    return (FILES_FOR_PEOPLE / "env").exists() and all(
        namespaces.holder(layout, node) is not None for node in nodes
    )


def down(layout: Layout) -> None:
    """End the cluster and remove all that it made. Raises NodeError."""
    namespaces.end(layout)
    shutil.rmtree(FILES_FOR_PEOPLE, ignore_errors=True)
    shutil.rmtree(STATE)


def keep_logs() -> None:
    """Move the logs of a failed start to where they outlive it."""
    kept = FILES_FOR_PEOPLE.with_name("cluster-failed-logs")
    shutil.rmtree(kept, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.copytree(STATE / "logs", kept)


def states(layout: Layout) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Node, name and state of each component. Raises NodeError."""
    for node in range(1, layout.nodes + 1):
        for name, state in orders.give(layout, node, "list").items():
            yield node, name, state


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Raises NodeError after three minutes."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise NodeError(f"waited {READY_TIMEOUT_S:g} s in vain until {what}; see {STATE}/logs")
        time.sleep(0.1)
