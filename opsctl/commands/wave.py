"""`deploy` of several environments, one after the other, and of several services in each.

Each deploy is an opsctl of its own, so it is as safe as one that was typed alone, and the same
command typed again goes on: what is deployed already is found unchanged. The first one that fails
stops the wave.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

from opsctl import shell
from opsctl.commands.outcome import Outcome
from opsctl.commands.service_order import in_order
from opsctl.config import load
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import ConfigError, Interrupted, OpsctlError, TimedOut
from opsctl.reader import reader
from opsctl.session import Options

ALL = "*"
SEPARATOR = ","

STOP_S = 120.0
"""How long a deploy may take to end in order after a signal."""

INTERNAL_ERROR = 1

NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Wish:
    """What the command line asks for. Environments and services are lists with commas, or `*`."""

    config: Path | None
    environments: str | None
    services: str | None
    jobs: int
    """Services that are deployed at the same time."""
    soak_s: float | None
    """Instead of each environment's own."""
    options: Options


def is_wave(environments: str | None, services: str | None) -> bool:
    """Whether the words mean several environments or services."""
    return any(SEPARATOR in words or words == ALL for words in (environments or "", services or ""))


def projects(wish: Wish) -> list[list[Project]]:
    """All that is to be deployed, by environment, each checked. Raises ConfigError."""
    document = load.load_document(wish.config)
    known = document.config
    environments = _names(wish.environments, known.environments) or [
        load.choose_environment(document, wish.environments)
    ]
    services = _names(wish.services, known.services) or [
        load.choose_service(document, wish.services)
    ]
    chosen = [load.choose_environment(document, name) for name in environments]
    served = [load.choose_service(document, name) for name in services]
    return [
        [load.project_of(document, environment, name) for name in served] for environment in chosen
    ]


def _names(words: str | None, known: Mapping[str, object]) -> list[str]:
    """The names of a list; empty when it is none."""
    if words == ALL:
        return list(known)
    if words is None or SEPARATOR not in words:
        return []
    names = [name.strip() for name in words.split(SEPARATOR)]
    for name in names:
        if not name or names.count(name) > 1:
            what = f'"{name}" stands twice' if name else "a name is missing"
            raise ConfigError(f"{what} in {words}", next_step="Name each one once: A,B,C")
    return names


def deploy(wish: Wish, console: Console) -> Outcome:
    """Deploy all of it in order; stop at the first that fails."""
    wave = _Wave(wish, console)
    environments = projects(wish)
    orders = [_order(services) for services in environments]  # refused before anything is touched
    with wave.listening():
        for number, (services, order) in enumerate(zip(environments, orders, strict=True), 1):
            wave.deploy_all(services, order)
            if number < len(environments):
                wave.soak_all(services)
    return wave.outcome()


@dataclass
class _Row:
    """What became of one service in one environment."""

    project: Project
    result: Mapping[str, Any]
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        return int(self.result.get("exit_code", 0))

    @property
    def name(self) -> str:
        return _name(self.project)

    def to_dict(self) -> dict[str, Any]:
        kept = ("outcome", "exit_code", "serving_release", "release", "reason", "report")
        return {
            "environment": self.project.environment,
            "service": self.project.service_name,
            **{key: self.result.get(key) for key in kept},
            "seconds": round(self.seconds, 1),
        }

    def shown(self) -> str:
        serving = self.result.get("serving_release")
        serves = f", {serving} serves" if serving else ""
        return f"{self.name}: {self.result['outcome']}{serves}"


class _Wave:
    """Deploys under way, and those that have ended."""

    def __init__(self, wish: Wish, console: Console) -> None:
        self._wish = wish
        self._console = console
        self._rows: list[_Row] = []
        self._signal = 0
        limit_s = wish.options.timeout_s
        self._deadline = None if limit_s is None else time.monotonic() + limit_s

    @property
    def failed(self) -> _Row | None:
        """The first that did not go well."""
        return next((row for row in self._rows if row.exit_code), None)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hand SIGINT and SIGTERM on to what is under way."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def deploy_all(self, services: Sequence[Project], order: TopologicalSorter[str]) -> None:
        """The services of one environment, each after those that it depends on."""
        by_name = {project.service_name: project for project in services}
        with ThreadPoolExecutor(self._wish.jobs) as pool:
            running: dict[Future[_Row], str] = {}
            while order.is_active() and not self.failed:
                for name in order.get_ready():
                    running[pool.submit(self._deploy, by_name[name])] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    self._rows.append(future.result())
                    if not self._rows[-1].exit_code:
                        order.done(name)
            begun = [future for future in running if not future.cancel()]
            self._rows.extend(future.result() for future in begun)
        told = {row.name for row in self._rows}
        for project in services:
            if _name(project) not in told:
                self._rows.append(_Row(project, {"outcome": NOT_BEGUN}))

    def soak_all(self, services: Sequence[Project]) -> None:
        """Watch what serves in an environment until it has done so for long enough."""
        with ThreadPoolExecutor(len(services)) as pool:
            for row in pool.map(self._soak, services):
                if row is not None and row.exit_code:
                    self._rows.append(row)

    def outcome(self) -> Outcome:
        """How the wave ended, for people and for programs."""
        failed = self.failed
        rows = [row.to_dict() for row in self._rows]
        lines = [row.shown() for row in self._rows]
        if failed is None:
            same = all(row.result["outcome"] == "unchanged" for row in self._rows)
            word = "unchanged" if same else "deployed"
            data = {"outcome": word, "exit_code": 0, "serving_release": None, "deploys": rows}
            return Outcome(0, data, "\n".join(lines))
        reason = failed.result.get("reason") or failed.result["outcome"]
        next_step = failed.result.get("next_step", "")
        lines.append(f"stopped at {failed.name} (exit {failed.exit_code}): {reason}")
        lines.append(" ".join(filter(None, (next_step, "Then run the same again: it goes on."))))
        data = {
            "outcome": "stopped",
            "exit_code": failed.exit_code,
            "serving_release": None,
            "stopped_at": failed.name,
            "reason": reason,
            "next_step": next_step,
            "deploys": rows,
        }
        return Outcome(failed.exit_code, data, "\n".join(lines))

    def _deploy(self, project: Project) -> _Row:
        lock_wait = f"{self._wish.options.lock_wait_s:g}"
        return self._run(project, "deploy", "--lock-wait", lock_wait)

    def _soak(self, project: Project) -> _Row | None:
        soak_s = self._wish.soak_s
        if soak_s is None:
            soak_s = project.config.environments[project.environment].soak_s
        left_s = 0.0 if self.failed else _soak_left_s(project, soak_s)
        if left_s <= 0:
            return None
        self._console.tell(f"{_name(project)}: watched for {left_s:.0f} s before the next begins")
        return self._run(project, "health", "--for", f"{left_s:.3f}")

    def _run(self, project: Project, *words: str) -> _Row:
        """One command of opsctl in one environment, to its end."""
        if self.failed:
            return _Row(project, {"outcome": NOT_BEGUN})
        name = _name(project)
        began = time.monotonic()
        where = ("-e", project.environment, "--service", project.service_name)
        argv = [sys.executable, "-m", "opsctl.cli", *words, "-c", str(project.path), *where,
                "-o", "json"]  # fmt: skip
        try:
            self._interrupt()  # a signal between two deploys must not begin the next one
            done = shell.run(
                argv,
                timeout_s=float("inf"),
                env={**os.environ, "GITHUB_ACTIONS": ""},
                interrupt=self._interrupt,
                progress=lambda line: self._console.tell(f"{name}: {line}"),
                grace_s=STOP_S,
            )
        except (Interrupted, TimedOut) as error:
            return _Row(project, _of_error(error), time.monotonic() - began)
        return _Row(project, _result(done), time.monotonic() - began)

    def _interrupt(self) -> None:
        if self._signal:
            raise Interrupted(self._signal)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TimedOut("the time limit (--timeout) passed", next_step="Run the same again")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = number


def _order(services: Sequence[Project]) -> TopologicalSorter[str]:
    """Which come first in an environment, whose overrides may say so. Raises ConfigError."""
    of = services[0]
    settings = {project.service_name: project.service for project in services}
    try:
        return in_order(settings, settings)
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        raise ConfigError(
            f"services depend on each other in a circle in {of.environment}: {circle}",
            next_step=f"Correct depends_on in {of.path}",
        ) from error


def _name(project: Project) -> str:
    return f"{project.environment}/{project.service_name}"


def _soak_left_s(project: Project, soak_s: float) -> float:
    """How long what serves has still to be watched, in seconds."""
    if not soak_s:
        return 0.0
    look = reader(project)
    try:
        records = look.journal.last().records
    except OpsctlError:
        return soak_s
    served_s = look.clock.now() - records[-1].time if records else 0.0
    # A clock that was set back must not make it longer than it was meant to be.
    return min(soak_s, soak_s - served_s)


def _of_error(error: OpsctlError) -> dict[str, Any]:
    code = error.signal_exit_code if isinstance(error, Interrupted) else error.exit_code
    return {
        "outcome": "stopped",
        "exit_code": code,
        "reason": error.what,
        "next_step": error.next_step,
    }


def _result(done: shell.Completed) -> dict[str, Any]:
    """The object that a command of opsctl wrote, its error's words among it."""
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        code = done.exit_code or INTERNAL_ERROR
        return {"outcome": "error", "exit_code": code, "reason": done.why}
    if error := found.get("error"):
        found |= {"reason": error["what"], "next_step": error.get("next_step", "")}
    return found


Plan = Callable[[Project], Outcome]


def plan(wish: Wish, plan_of: Plan) -> Outcome:
    """What each deploy would do."""
    found = [(project, plan_of(project)) for services in projects(wish) for project in services]
    rows = [
        {"environment": p.environment, "service": p.service_name, **outcome.data}
        for p, outcome in found
    ]
    text = "\n".join(f"{_name(project)}:\n{outcome.text}" for project, outcome in found)
    same = all(row["outcome"] == "unchanged" for row in rows)
    word = "unchanged" if same else "differences"
    return Outcome(
        max((outcome.exit_code for _, outcome in found), default=0),
        {"outcome": word, "exit_code": 0, "serving_release": None, "plans": rows},
        text,
    )
