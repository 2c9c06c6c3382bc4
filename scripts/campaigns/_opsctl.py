"""opsctl as a real process in a temporary project, and what is left of it afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl import shell
from tests.apps.project import ServiceProject

ROOT = Path(__file__).parents[2]
COMMAND_MAX_S = 420.0
"""No command of a campaign may take longer; a hang is a failed run, not a stuck campaign."""


@dataclass(frozen=True)
class Result:
    """How a command of opsctl ended."""

    exit_code: int
    data: Mapping[str, Any]
    """The JSON on stdout; empty when there was none."""
    stderr: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Wall time of the command."""
        return self.ended - self.began


@dataclass(frozen=True)
class Opsctl:
    """The command, in one project."""

    project: ServiceProject

    def argv(self, *arguments: str) -> list[str]:
        """The command line."""
        command = [sys.executable, "-m", "opsctl.cli", *arguments]
        return [*command, "-c", str(self.project.config), "-o", "json"]

    def env(self, **more: str) -> dict[str, str]:
        """This environment, with the checkout's own opsctl on the path."""
        kept = {
            name: value
            for name, value in os.environ.items()
            # Without byte code each start would compile all of opsctl again.
            if not name.startswith("OPSCTL") and name != "PYTHONDONTWRITEBYTECODE"
        }
        own = {"PYTHONPATH": str(ROOT), "OPSCTL_ACTOR": "campaign", "OPSCTL_DEBUG": "1"}
        return {**kept, **own, **more}

    def run(self, *arguments: str, **env: str) -> Result:
        """Run a command to its end."""
        began = time.time()
        done = shell.run(
            self.argv(*arguments),
            timeout_s=COMMAND_MAX_S,
            cwd=self.project.root,
            env=self.env(**env),
        )
        if done.timed_out:
            raise TimeoutError(f"opsctl {' '.join(arguments)} took over {COMMAND_MAX_S} s")
        return Result(done.exit_code, parse(done.stdout), done.stderr, began, time.time())

    def spawn(self, log: Path, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """Start a command that will be killed; its output goes to `log`."""
        argv, full = self.argv(*arguments), self.env(**env)
        return shell.spawn(argv, cwd=self.project.root, env=full, log=log)

    def status(self) -> Mapping[str, Any]:
        """What `opsctl status` says. Raises RuntimeError when it can't tell."""
        result = self.run("status")
        if result.exit_code != 0:
            raise RuntimeError(f"status ended with {result.exit_code}: {result.stderr}")
        return result.data

    def processes(self) -> dict[int, str]:
        """Command lines of everything that runs for the service, by pid."""
        return processes_of(self.project.root)

    def wrong_processes(self, replicas: Collection[int]) -> list[str]:
        """What is wrong with what runs: these replicas, one balancer, one supervisor, no more."""
        running = self.processes()
        found = {pid for pid, line in running.items() if self.project.replica_mark in line}
        wrong = []
        if found != set(replicas):
            wrong.append(f"replicas {sorted(found)} run instead of {sorted(replicas)}")
        clients = [line for line in running.values() if "opsctl.cli" in line]
        if clients:
            wrong.append(f"left over: {clients}")
        balancers = [line for line in running.values() if line.startswith("haproxy")]
        if len(balancers) > 2:
            wrong.append(f"{len(balancers)} balancers run")
        return wrong

    def recoverer(self, serial: str) -> Opsctl:
        """The command as it is called after a kill: where it was called before."""
        return self

    def down(self) -> list[str]:
        """Take everything down; command lines of processes that were left (and are now ended)."""
        self.run("down", "--yes")
        return end_leftovers(self.project.root)


def parse(text: str) -> Mapping[str, Any]:
    """A JSON object, or an empty one when `text` is none."""
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def processes_of(folder: Path) -> dict[int, str]:
    """Command lines of the processes that work in `folder` or name it, by pid; not our own."""
    return _processes(lambda entry, line: str(folder) in line or _is_in(entry, folder))


def processes_with(words: str) -> dict[int, str]:
    """Command lines of the processes that have these words in theirs, by pid; not our own."""
    return _processes(lambda _, line: words in line)


def _processes(wanted: Callable[[Path, str], bool]) -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # A zombie has no command line and holds nothing.
            if line and wanted(entry, line):
                found[int(entry.name)] = line.strip()
    return found


def _is_in(entry: Path, folder: Path) -> bool:
    return Path(os.readlink(entry / "cwd")).is_relative_to(folder)


def end_leftovers(folder: Path, patience_s: float = 30.0) -> list[str]:
    """Give processes of `folder` a moment to end; kill and name those that did not."""
    deadline = time.monotonic() + patience_s
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(left.values())
