"""One command in charge of one service: lock, journal, target, and the rollout that is open."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opsctl import deploy
from opsctl.aftermath import finish, tell_started, tell_waiting
from opsctl.attendance import Attendance
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import JournalBroken, OpsctlError, PreflightRefused
from opsctl.model import FULL_WEIGHT, DesiredState, Json, Observed
from opsctl.plan import Step
from opsctl.reader import Reader, actor_name, reader, report_folder
from opsctl.rollout import Progress, ReleaseMarks, fold
from opsctl.scene import Scene, hide
from opsctl.secrets import SecretStore, resolve_one
from opsctl.storage import Holder

BUNDLES = "bundles"

GUARD_WAIT_S = 8.0
"""How long a rebuild waits for the guard to take an unproved candidate off traffic."""


@dataclass(frozen=True)
class Options:
    """What the command line says of how to work."""

    timeout_s: float | None = None
    lock_wait_s: float = 0.0


@dataclass(frozen=True)
class Session:
    """Being in charge."""

    read: Reader
    attendance: Attendance
    console: Console
    actor: str
    command: str

    @property
    def project(self) -> Project:
        return self.read.project

    def open(
        self, op: str, candidate: str, base: str | None, plan: tuple[Step, ...], **extra: Any
    ) -> None:
        """Begin a rollout: from this record on, whoever comes after can carry it on."""
        journal = self.read.journal
        last = journal.last()
        assert last.closed or not last.records, f"rollout {last.number} is open"
        number = last.number + 1
        if op == "deploy":
            self.read.store.reserve(candidate)
        write_bundle(self.read, number)
        opening = deploy.Opening(op, candidate, base, self.read.last_state(), plan)
        circumstances = {
            "actor": self.actor,
            "environment": self.project.environment,
            "service": self.project.service_name,
            "strategy": self.project.service.strategy.type,
            "front": self._front(),
        }
        journal.append("opened", {**opening.to_dict(), **circumstances, **extra})
        journal.reserve_space()

    def ask(self, request: Any, reason: str = "") -> None:
        """Put a request of our own into the inbox, as anybody else would."""
        self.read.inbox.put(request, by=self.actor, reason=reason, clock=self.read.clock)

    def carry_on(self) -> Progress:
        """Run the open rollout to its end, write its report, tell who wants to know."""
        rollout = self._rollout()
        started = tell_started(rollout)
        try:
            progress = deploy.run(rollout)
        except OpsctlError as error:
            tell_waiting(rollout, error, started)
            raise
        finish(self.read, rollout, progress, started)
        return progress

    def _rollout(self) -> deploy.Rollout:
        segment = self.read.journal.last()
        project = bundled_project(self.read, segment.number)
        folder = report_folder(project, segment.number)
        self._hide_secrets(fold(segment.records))
        scene = Scene(
            project,
            self.read.target,
            self.read.store,
            SecretStore(self.read.storage),
            self.attendance,
            self.console,
            self.read.clock,
            self.actor,
            folder,
            self.read.place.gate,
        )
        return deploy.Rollout(scene, self.read.journal, self.read.inbox, self._expected())

    def _hide_secrets(self, progress: Progress) -> None:
        secrets = SecretStore(self.read.storage)
        values: dict[str, str] = {}
        for release in (progress.base, progress.candidate):
            for name, value in secrets.load(release).items() if release else ():
                values[f"{release} {name}"] = value
        for index, webhook in enumerate(self.project.service.notifications):
            if webhook.secret:
                with contextlib.suppress(OpsctlError):  # its delivery will say what is wrong
                    name = f"notifications.{index}.secret"
                    values[name] = resolve_one(name, webhook.secret, self.project.root)
        hide(self.console, values)
        self.read.journal.clean = self.console.clean_json

    def _expected(self) -> Mapping[str, float]:
        for number in reversed(self.read.journal.numbers()[:-1]):
            with contextlib.suppress(JournalBroken):
                segment = self.read.journal.read(number)
                if segment.closed and segment.records[-1].data["exit_code"] == 0:
                    return deploy.step_times(segment.records)
        return {}

    def _front(self) -> Json:
        observed = self.read.observed()
        if observed is None:
            return {"requests": 0, "errors": 0}
        return {"requests": observed.front_requests, "errors": observed.front_errors}


@contextlib.contextmanager
def in_charge(
    place: Project | Reader, console: Console, command: str, options: Options, *, reach: bool = True
) -> Iterator[Session]:
    """Hold the service for a block. Raises LockHeld when somebody else does. Who has looked at it
    already goes on with what he knows, as each new look costs a hurried command time.

    Raises TargetUnreachable when the target does not answer, unless it need not (`reach`).
    """
    look = place if isinstance(place, Reader) else reader(place)
    actor = actor_name()
    look.storage.prepare()
    holder = Holder(os.getpid(), actor, command, look.clock.now())
    lock = look.storage.hold(holder, wait_s=options.lock_wait_s, clock=look.clock)
    try:
        attendance = Attendance(lock, look.target, look.inbox, look.clock)
        attendance.limit(options.timeout_s)
        with attendance.present():
            session = Session(look, attendance, console, actor, command)
            observed = look.target.observe() if reach else look.observed()
            recover(session, observed)
            yield session
    finally:
        lock.free()


def recover(session: Session, observed: Observed | None) -> None:
    """Make the journal whole again when it is damaged, or when the target is ahead of it."""
    journal = session.read.journal
    try:
        segment = journal.last()
    except JournalBroken as error:
        rebuild(session, str(error))
        return
    if not segment.records or segment.closed:
        for request in session.read.inbox.items():  # they came too late for their rollout
            session.read.inbox.remove(request)
    if observed is None:
        return
    tail = segment.records[-1] if segment.records else None
    known = (tail.epoch, tail.seq) if tail else (0, 0)
    if (observed.stamp.epoch, observed.stamp.sequence) > known:
        rebuild(session, "the target was given orders that the journal does not have")


def rebuild(session: Session, why: str) -> None:
    """Set the damaged journal aside and begin a new one from what runs."""
    session.console.warn(f"the journal is rebuilt from what runs: {why}")
    observed = _after_guard(session)
    marks = session.read.marks()
    journal = session.read.journal
    journal.set_aside(why)
    journal.epoch = observed.stamp.epoch + 1 if observed else 0
    state = state_without_trial(observed.desired, marks) if observed else DesiredState()
    serving = state.serving_release or ""
    opening = deploy.Opening("rebuild", serving, None, state)
    known = {"actor": session.actor, "why": why, "marks": marks.to_dict()}
    journal.append("opened", {**opening.to_dict(), **known})
    ended = {"outcome": "rebuilt", "exit_code": 0, "reason": why, "serving_release": serving}
    journal.append("closed", ended)


def state_without_trial(desired: DesiredState, marks: ReleaseMarks) -> DesiredState:
    """`desired` less what was on trial: one release with all traffic, and those that are warm."""
    carriers = [share.release for share in desired.shares if share.weight]
    proved = [release for release in marks.proved if release in carriers]
    serving = proved[-1] if proved else desired.serving_release
    kept = tuple(
        share
        for share in desired.without_baselines().shares
        if share.release == serving or share.retire_at is not None
    )
    return DesiredState(
        tuple(replace(s, weight=FULL_WEIGHT if s.release == serving else 0) for s in kept)
    )


def _after_guard(session: Session) -> Observed | None:
    """What runs once no unproved candidate can have traffic any more."""
    clock = session.read.clock
    deadline = clock.monotonic() + GUARD_WAIT_S
    observed = session.read.observed()
    while observed and not observed.guarded and _split(observed) and clock.monotonic() < deadline:
        clock.sleep(0.1)
        observed = session.read.observed()
    return observed


def _split(observed: Observed) -> bool:
    return sum(1 for share in observed.desired.shares if share.weight) > 1


def write_bundle(look: Reader, number: int) -> None:
    """Keep the configuration and request files that a rollout began with."""
    project, storage = look.project, look.storage
    folder = _bundle(number)
    storage.remove(folder)
    storage.write(f"{folder}/opsctl.yaml", project.path.read_bytes())
    names = {}
    for index, name in enumerate(_request_files(project)):
        source = project.root / name
        if source.is_file():
            names[name] = f"{index}-{source.name}"
            storage.write(f"{folder}/{names[name]}", _content(source))
    # Written last: a folder without it is no bundle.
    storage.write(f"{folder}/files.json", json.dumps(names).encode())
    for old in storage.names(BUNDLES)[: -project.service.retention.reports]:
        storage.remove(f"{BUNDLES}/{old}")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PreflightRefused(
            f"cannot read {file}",
            why=error.strerror or str(error),
            next_step="Correct bench.requests_file or smoke.body_file, or the file's rights",
        ) from error


def _bundle(number: int) -> str:
    return f"{BUNDLES}/{number:06d}"


def bundled_project(look: Reader, number: int) -> Project:
    """The project as it was when the rollout began; today's when there is no bundle."""
    from opsctl.config.load import load

    project = look.project
    listed = look.storage.read(f"{_bundle(number)}/files.json")
    if listed is None:
        return project
    names = json.loads(listed.data)
    folder = look.storage.fetch(_bundle(number))

    def kept(name: str | None) -> str | None:
        return str(folder / names[name]) if name in names else name

    path = folder / "opsctl.yaml"
    then = load(path, environment=project.environment, service=project.service_name)
    service = then.service
    smoke = tuple(replace(test, body_file=kept(test.body_file)) for test in service.smoke)
    bench = service.bench
    if bench:
        bench = replace(bench, requests_file=kept(bench.requests_file))
    local = replace(service.local, state_dir=project.service.local.state_dir)
    service = replace(service, smoke=smoke, bench=bench, local=local)
    return replace(project, service=service, config=then.config)


def _request_files(project: Project) -> list[str]:
    service = project.service
    names = [test.body_file for test in service.smoke]
    names.append(service.bench.requests_file if service.bench else None)
    return [name for name in names if name]
