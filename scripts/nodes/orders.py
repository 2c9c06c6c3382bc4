"""Orders to the first process of a node."""

from __future__ import annotations

import json
import socket
from typing import Any

from scripts.nodes.layout import Layout
from scripts.nodes.namespaces import NodeError

TIMEOUT_S = 40.0


def give(layout: Layout, node: int, *order: str) -> dict[str, Any]:
    """`start`, `stop`, `kill`, `freeze` or `thaw` a component, or `list` all: its state then.

    Raises NodeError.
    """
    path = layout.node(node) / "control.sock"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
            connection.sendall(" ".join(order).encode())
            answer = connection.recv(65536)
        except OSError as error:
            raise NodeError(f"node{node} does not answer: {error}") from error
    if not answer:
        raise NodeError(f"node{node} can't `{' '.join(order)}`: see scripts/cluster status")
    state: dict[str, Any] = json.loads(answer)
    return state
