"""The namespaces of the nodes and the network between them."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from opsctl import shell
from scripts.nodes.layout import CHECKOUT, STATE, Layout

NUMBERS = range(1, 100)
SETTLE_TIMEOUT_S = 30.0


class NodeError(Exception):
    """The node can't be brought up; the text says what to do."""


@dataclass(frozen=True)
class Process:
    """A process that can't be mistaken for a later one with its id."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process with that id now."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else cls(pid, fields[19])

    @property
    def lives(self) -> bool:
        """Whether it is still there."""
        return Process.of(self.pid) == self


def run(*command: str, check: bool = True) -> shell.Completed:
    """Run a short command quietly. Raises NodeError with its own words."""
    done = shell.run(command, timeout_s=SETTLE_TIMEOUT_S)
    if check and not done.ok:
        raise NodeError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done


def claim_number() -> int:
    """A number whose interface did not exist on this machine; now it does."""
    for number in NUMBERS:
        made = run("ip", "link", "add", f"opsctl{number}", "type", "bridge", check=False)
        if made.ok:
            return number
        if "File exists" not in made.stderr:
            raise NodeError(f"no bridge can be made on this machine: {made.stderr.strip()}")
    raise NodeError("all 99 numbers are taken: see `ip link`, and run scripts/cluster down there")


def hold(layout: Layout, node: int) -> None:
    """Start the namespaces of a node, and wait until they are set up."""
    folder = layout.node(node)
    (folder / "set-up").unlink(missing_ok=True)
    log = STATE / "logs" / f"node{node}.log"
    command = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    command += ["--mount-proc", "--propagation", "private"]
    command += [sys.executable, "-m", "scripts.nodes.hold", str(node)]
    outer = shell.spawn(command, cwd=Path("/"), env=environment(), log=log)
    (folder / "outer").write_text(describe(outer.pid))
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not (folder / "set-up").exists():
        if outer.poll() is not None or time.monotonic() > deadline:
            raise NodeError(f"the namespaces of node{node} can't be made: {log.read_text()}")
        time.sleep(0.02)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    (folder / "inner").write_text(describe(int(children[0])))


def environment() -> dict[str, str]:
    """For this package as a program of its own."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}


def describe(pid: int) -> str:
    """A process as it is written down."""
    process = Process.of(pid)
    if process is None:
        raise NodeError("the first process of a node ended at once")
    return f"{process.pid} {process.started}"


def holder(layout: Layout, node: int, which: str = "inner") -> Process | None:
    """The node's first process (or the one outside that waits for it), if it lives."""
    try:
        pid, started = (layout.node(node) / which).read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    process = Process(int(pid), started)
    return process if process.lives else None


def connect(layout: Layout, node: int) -> None:
    """Hang a node on the cluster's bridge."""
    process = holder(layout, node)
    if process is None:
        raise NodeError(f"node{node} ended; see {STATE}/logs/node{node}.log")
    outside, pid = f"{layout.bridge}n{node}", str(process.pid)
    run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", pid)
    run("ip", "link", "set", outside, "master", layout.bridge, "up")
    inside = ["nsenter", "--net", "--target", pid]
    run(*inside, "ip", "address", "add", f"{layout.address(node)}/24", "dev", "eth0")
    run(*inside, "ip", "link", "set", "eth0", "up")
    # Packets for addresses of Services need some route before they are rewritten.
    run(*inside, "ip", "route", "add", "default", "via", layout.gateway_address)
    for other in range(1, layout.nodes + 1):
        if other != node:
            run(*inside, "ip", "route", "add", layout.pods(other), "via", layout.address(other))


def open_bridge(layout: Layout) -> None:
    """Give this machine an address beside the nodes."""
    run("ip", "address", "add", f"{layout.gateway_address}/24", "dev", layout.bridge)
    run("ip", "link", "set", layout.bridge, "up")
    if layout.nodes > 1:
        run(*pass_frames(layout, "--insert"))


def pass_frames(layout: Layout, how: str) -> list[str]:
    """Let the nodes reach each other also where an engine drops what this machine forwards."""
    ends = ["--in-interface", layout.bridge, "--out-interface", layout.bridge]
    return ["iptables", "--wait", how, "FORWARD", *ends, "--jump", "ACCEPT"]


def end(layout: Layout) -> None:
    """End all processes of the cluster, and remove its interfaces and cgroups."""
    for node in range(1, layout.nodes + 1):
        for which in ("inner", "outer"):
            process = holder(layout, node, which)
            if process is not None:
                os.kill(process.pid, signal.SIGKILL)
                wait_until_gone(process)
    run("ip", "link", "delete", layout.bridge, check=False)
    if layout.nodes > 1:
        run(*pass_frames(layout, "--delete"), check=False)
    names = [layout.cgroup(node) for node in range(1, layout.nodes + 1)]
    command = ["unshare", "--mount", sys.executable, "-m", "scripts.nodes.cgroups", *names]
    done = shell.run(command, timeout_s=SETTLE_TIMEOUT_S, cwd=Path("/"), env=environment())
    if not done.ok:
        raise NodeError(f"{done.why}; run scripts/cluster down again")


def wait_until_gone(process: Process) -> None:
    """A first process ends after everything in its namespaces."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while process.lives:
        if time.monotonic() > deadline:
            raise NodeError(f"process {process.pid} does not end")
        time.sleep(0.02)
