"""A real cluster as tests use it: kubectl, both Helms, requests, programs inside a node."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "cluster"
OWN_NAME = os.environ.get("OPSCTL_CLUSTER", "")
ENVIRONMENT = ROOT / "build" / (f"cluster-{OWN_NAME}" if OWN_NAME else "cluster") / "env.json"
CHART = ROOT / "helm"
HELMS = ("4", "3")
WAIT_S = 240.0
"""Long enough for a machine that is ten times slower than it should be."""


class Refused(Exception):
    """A command failed; the text is what it said."""


@dataclass(frozen=True)
class Cluster:
    """The cluster of this checkout."""

    variables: dict[str, str]

    @property
    def address(self) -> str:
        """The first node's address, where NodePorts answer."""
        return self.variables["CLUSTER_ADDRESS"]

    @property
    def image(self) -> str:
        """The tests' small service."""
        return self.variables["CLUSTER_LIGHT_IMAGE"]

    def run(self, argv: Sequence[str], given: str = "") -> str:
        """What a command prints. Raises Refused with its words."""
        done = subprocess.run(
            argv,
            input=given,
            capture_output=True,
            text=True,
            env={**self.variables, "HOME": "/root"},
            timeout=WAIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(f"{done.stderr.strip()}\n{done.stdout.strip()}")
        return done.stdout

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """What kubectl prints. Raises Refused."""
        return self.run([self.variables["CLUSTER_KUBECTL"], *arguments], given)

    def get(self, *arguments: str) -> Any:
        """What kubectl gets, as an object."""
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def helm(self, major: str, *arguments: str, values: dict[str, Any] | None = None) -> str:
        """What a Helm prints; `values` go to it as a file. Raises Refused."""
        given = yaml.safe_dump(values) if values is not None else ""
        more = ["--values", "-"] if values is not None else []
        return self.run([self.variables[f"CLUSTER_HELM{major}"], *arguments, *more], given)

    def order(self, *arguments: str) -> str:
        """What scripts/cluster prints, as for `stop kubelet`. Raises Refused."""
        return self.run([str(SCRIPT), *arguments])

    def within(self) -> list[str]:
        """What goes before a command for it to run on the node's network, where pods can be
        reached. It becomes the command, so that a signal to it is one to the command."""
        return ["nsenter", "--target", self.order("pid").strip(), "--net", "--"]

    @contextmanager
    def namespace(self, name: str, level: str = "restricted") -> Iterator[str]:
        """A namespace whose pods must be of a level; gone afterwards, without waiting."""
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def node_port(self, namespace: str, service: str) -> int:
        """Where a Service of type NodePort answers on every node."""
        ports = self.get("service", service, "--namespace", namespace)["spec"]["ports"]
        return int(ports[0]["nodePort"])

    def roll_out(self, namespace: str, deployment: str) -> None:
        """Wait until all replicas of a Deployment are ready. Raises Refused."""
        self.kubectl(
            "rollout", "status", f"deployment/{deployment}", "--namespace", namespace,
            f"--timeout={WAIT_S:g}s",
        )  # fmt: skip


def ask(address: str, port: int, path: str, headers: dict[str, str] | None = None) -> Answer:
    """One GET on a connection of its own. Raises OSError."""
    connection = http.client.HTTPConnection(address, port, timeout=5)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, named, answer.read().decode())
    finally:
        connection.close()


@dataclass(frozen=True)
class Answer:
    """Status, headers by their names in small letters, and body."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def release(self) -> str:
        """The release that answered, by its own word."""
        return self.headers.get("x-light-release", "")


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait; an AssertionError says what did not come true. Errors of the network count as no."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            if holds():
                return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline, f"it did not come true that {what}"
        time.sleep(0.1)
