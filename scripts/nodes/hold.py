"""The first process of a node's namespaces: it runs the components and does as it is told.

It listens on `control.sock` in the node's folder for lines `VERB COMPONENT`: `start`, `stop`
(SIGTERM), `kill`, `freeze`, `thaw`, `list`; it answers with one JSON line. When it ends, the kernel
ends everything in the namespaces.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsctl import shell
from scripts.nodes import cgroups, components
from scripts.nodes.layout import Layout, load

if TYPE_CHECKING:
    import subprocess

SIGNALS = {
    "stop": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "freeze": signal.SIGSTOP,
    "thaw": signal.SIGCONT,
}
STOP_TIMEOUT_S = 20.0


class Holder:
    """The components of one node that run or ran."""

    def __init__(self, layout: Layout, node: int) -> None:
        self.layout = layout
        self.node = node
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self) -> None:
        """Take orders for ever, and reap what is left to the first process."""
        path = self.layout.node(self.node) / "control.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(16)
            listener.settimeout(0.5)
            while True:
                self.reap()
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    self.take_order(connection)

    def take_order(self, connection: socket.socket) -> None:
        """Answer one order; one that can't be carried out must not end the node."""
        try:
            line = connection.recv(4096).decode()
            connection.sendall(json.dumps(self.answer(*line.split())).encode() + b"\n")
        except (OSError, TypeError, KeyError, ValueError) as error:
            print(f"an order failed: {error!r}", file=sys.stderr, flush=True)

    def answer(self, verb: str, name: str = "") -> Any:
        """Carry out an order. Raises KeyError for a component or verb that there is not."""
        if verb == "list":
            return {name: self.state(name) for name in components.names(self.node)}
        if verb == "start":
            self.start(name)
        else:
            self.signal(name, SIGNALS[verb])
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """Its process id in the node's own numbering, and how it ended, if it did."""
        process = self.running.get(name)
        if process is None:
            return {"state": "not started"}
        code = process.poll()
        return {"state": "runs" if code is None else "ended", "pid": process.pid, "code": code}

    def start(self, name: str) -> None:
        """Start it unless it runs."""
        command = components.command(name, self.layout, self.node)
        process = self.running.get(name)
        if process is not None and process.poll() is None:
            return
        environment = {"PATH": self.layout.parts.path, "HOME": "/root", "LANG": "C.UTF-8"}
        log = Path(components.log_path(name, self.node))
        self.running[name] = shell.spawn(command, cwd=Path("/"), env=environment, log=log)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; for those that end it, wait until it has ended."""
        process = self.running[name]
        process.send_signal(number)
        if number not in (signal.SIGTERM, signal.SIGKILL):
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()

    def reap(self) -> None:
        """Collect ended processes: components, and what became nobody's child but this one's."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            own = [one for one in self.running.values() if one.pid == ended.si_pid]
            if own and own[0].returncode is None:
                own[0].poll()
            else:
                os.waitpid(ended.si_pid, os.WNOHANG)


def set_up(layout: Layout, node: int) -> None:
    """What the namespaces need before anything runs in them."""
    # Mounts of volumes must be seen by containers, and none of them outside of here.
    must("mount --make-rshared /")
    cgroups.mount_missing()
    cgroups.make(layout.cgroup(node))
    for command in ("ip link set lo up", "sysctl -q -w net.ipv4.ip_forward=1"):
        must(command)
    (layout.node(node) / "resolv.conf").write_text("")


def must(command: str) -> None:
    """Run a short command. Raises OSError when it fails."""
    done = shell.run(command.split(), timeout_s=30)
    if not done.ok:
        raise OSError(f"`{command}`: {done.why}")


def main() -> None:
    node = int(sys.argv[1])
    layout = load()
    assert layout is not None
    # An order to end comes as SIGKILL from outside; a first process ignores the others anyway.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up(layout, node)
    (layout.node(node) / "set-up").write_text(str(time.time()))
    Holder(layout, node).serve()


if __name__ == "__main__":
    main()
