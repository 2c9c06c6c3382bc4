"""What stands against a deploy, found before anything is touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.content import scan
from opsctl.errors import OpsctlError, PreflightRefused, TargetUnreachable
from opsctl.model import DesiredState, Finding, Observed
from opsctl.release_sources import app_directory, app_rules, model_source, python_of
from opsctl.release_store import ReleaseStore
from opsctl.secrets import resolve_secrets
from opsctl.shell import run
from opsctl.targets.target import Target

MEGABYTE = 1 << 20
PYTHON_TIMEOUT_S = 30.0
"""Start of an interpreter from a cold, busy disk."""

NOT_PRIVATE = 0o077
"""Mode bits that let others than the owner read a secret's file."""


@dataclass(frozen=True)
class _Case:
    """All that the checks look at."""

    project: Project
    target: Target
    store: ReleaseStore
    state: DesiredState
    observed: Observed | None

    @property
    def here(self) -> bool:
        """Whether replicas are processes of this machine, made of its files."""
        return self.project.target == "local"

    @property
    def base(self) -> str | None:
        """The release that serves now."""
        return self.observed.desired.serving_release if self.observed else None

    @property
    def added_replicas(self) -> int:
        """Replicas that `state` has on top of those that run."""
        running = len(self.observed.replicas) if self.observed else 0
        return max(0, sum(share.replicas for share in self.state.shares) - running)

    @property
    def largest_replica_mb(self) -> int:
        """Memory of the largest replica that runs now."""
        sizes = (replica.rss_bytes for replica in (self.observed.replicas if self.observed else ()))
        return max(sizes, default=0) // MEGABYTE


def preflight(
    project: Project, target: Target, store: ReleaseStore, state: DesiredState
) -> list[Finding]:
    """All findings against the fullest state of a rollout; nothing is changed.

    `refuse_on` turns failures into an error.
    """
    case = _Case(project, target, store, state, _observed(target))
    return [finding for check in CHECKS for finding in check(case)]


def refuse_on(findings: Sequence[Finding]) -> None:
    """Raise `PreflightRefused` that lists every finding that is a failure."""
    failures = [finding for finding in findings if finding.status == "fail"]
    if failures:
        steps = dict.fromkeys(f.next_step.rstrip(".") for f in failures if f.next_step)
        raise PreflightRefused(
            f"{len(failures)} of {len(findings)} preflight checks failed",
            why="; ".join(f"{finding.check}: {finding.what}" for finding in failures),
            next_step=". ".join(steps),
        )


def _observed(target: Target) -> Observed | None:
    """What runs; None before the first deploy, when nobody answers yet."""
    try:
        return target.observe()
    except TargetUnreachable:
        return None


def _state_dir(case: _Case) -> Iterator[Finding]:
    if not case.here:
        return
    directory = case.project.service_dir
    place = next(path for path in (directory, *directory.parents) if path.exists())
    if not place.is_dir():
        yield Finding("state folder", "fail", f"{place} is no folder", "Set local.state_dir")
    elif not _writable(place):
        why = f"{place} is not writable"
        yield Finding("state folder", "fail", why, "Make it writable, or set local.state_dir")
    else:
        yield Finding("state folder", "ok", str(directory))
        yield _free_space(case, place)


def _writable(place: Path) -> bool:
    """By trying: access(2) says yes to root on a read-only disk that is mounted elsewhere."""
    trial = place / f".opsctl-trial-{os.getpid()}"
    try:
        trial.write_bytes(b"x")
        trial.unlink()
    except OSError:
        return False
    return True


def _free_space(case: _Case, place: Path) -> Finding:
    free_mb = shutil.disk_usage(place).free // MEGABYTE
    least_mb = case.project.service.retention.min_free_mb
    if free_mb < least_mb:
        said = f"{free_mb} MB are free at {place}, retention.min_free_mb asks for {least_mb} MB"
        return Finding("disk space", "fail", said, "Run: opsctl releases prune")
    return Finding("disk space", "ok", f"{free_mb} MB are free")


def _app(case: _Case) -> Iterator[Finding]:
    if not case.here:
        return
    yield _tried(
        "application",
        lambda: f"{len(scan(app_directory(case.project), app_rules(case.project)))} files",
    )


def _model(case: _Case) -> Iterator[Finding]:
    if case.project.service.model is not None:
        yield _tried("model", lambda: str(model_source(case.project)))


def _python(case: _Case) -> Iterator[Finding]:
    if not case.here or not any("{python}" in word for word in case.project.service.app.command):
        return
    try:
        python = python_of(case.project)
    except OpsctlError as error:
        yield Finding("python", "fail", error.what, error.next_step)
        return
    done = run([python, "-c", "pass"], timeout_s=PYTHON_TIMEOUT_S)
    if done.ok:
        yield Finding("python", "ok", python)
    else:
        yield Finding("python", "fail", f"{python} does not run: {done.why}", "Set app.python")


def _files(case: _Case) -> Iterator[Finding]:
    """Files that opsctl.yaml names beside application and model."""
    service = case.project.service
    names = [(test.body_file, f"body_file of smoke test {test.name!r}") for test in service.smoke]
    if service.bench is not None:
        names.append((service.bench.requests_file, "bench.requests_file"))
    target = case.project.target
    tls = {"local": service.local.tls, "docker": service.docker.tls}.get(target)
    if tls is not None:
        names.append((tls.certificate, f"{target}.tls.certificate"))
        names.append((tls.private_key, f"{target}.tls.private_key"))
    for name, key in names:
        if name is None:
            continue
        path = case.project.root / name
        if not path.is_file() or not os.access(path, os.R_OK, effective_ids=True):
            why = "is missing" if not path.exists() else "can't be read"
            yield Finding("files", "fail", f"{path} ({key}) {why}", f"Provide it, or change {key}")
        else:
            yield Finding("files", "ok", f"{path} ({key})")


def _requests(case: _Case) -> Iterator[Finding]:
    """The benchmark's requests are JSON lines."""
    bench = case.project.service.bench
    path = case.project.root / bench.requests_file if bench and bench.requests_file else None
    if path is None or not path.is_file():
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError as error:
            said = f"line {number} of {path} is no JSON ({error})"
            yield Finding("benchmark requests", "fail", said, "Repair the line")
            return


def _secrets(case: _Case) -> Iterator[Finding]:
    sources = case.project.service.app.secrets
    root = case.project.root
    if sources:
        yield _tried("secrets", lambda: f"{len(resolve_secrets(sources, root))} have a value")
    for name, source in sorted(sources.items()):
        path = root / source.file if source.file else None
        if path and path.is_file() and path.stat().st_mode & NOT_PRIVATE:
            said = f"{path} (secret {name}) can be read by others"
            yield Finding("secrets", "warn", said, f"Run: chmod 600 {path}")


def _memory(case: _Case) -> Iterator[Finding]:
    limit_mb = case.project.service.resources.memory_mb
    each_mb = limit_mb or case.largest_replica_mb
    available_mb = available_memory_mb()
    if not case.here or not each_mb or available_mb is None:
        return
    needed_mb = each_mb * case.added_replicas
    said = (
        f"{case.added_replicas} more replicas may use {needed_mb} MB,"
        f" {available_mb} MB are available"
    )
    if needed_mb > available_mb:
        # Without a limit it is a guess by what the old release uses: no reason to refuse.
        advice = "Stop something, lower resources.memory_mb, or set strategy.type: recreate"
        yield Finding("memory", "fail" if limit_mb else "warn", said, advice)
    else:
        yield Finding("memory", "ok", said)


def available_memory_mb() -> int | None:
    """MemAvailable of this machine (proc(5)), None where the kernel does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) // 1024
    return None


def _cpus(case: _Case) -> Iterator[Finding]:
    shares = (share.cpus for share in case.state.shares)
    wanted = set(case.project.service.resources.cpus).union(*shares)
    if not case.here or not wanted:
        return
    here = os.sched_getaffinity(0)
    missing = sorted(wanted - here)
    if missing:
        said = f"CPUs {missing} are not to be had, only {sorted(here)}"
        yield Finding("cpus", "fail", said, "Set resources.cpus")
    else:
        yield Finding("cpus", "ok", f"replicas are pinned to {sorted(wanted)}")


def _gate(case: _Case) -> Iterator[Finding]:
    service = case.project.service
    if not service.gate.enabled:
        yield Finding("gate", "warn", "gate.enabled is false: speed is not judged")
    elif service.bench is None:
        said = "no benchmark is configured: speed is not judged"
        yield Finding("gate", "warn", said, "Add bench to opsctl.yaml")
    elif service.bench.body is None and not service.bench.requests_file:
        if service.bench.method == "POST" and not service.bench.is_generated:
            said = "bench sends POST without a body"
            yield Finding("gate", "fail", said, "Set bench.requests_file or bench.body")
    elif service.strategy.type == "recreate" and case.base:
        said = "recreate has no room for two: only absolute limits gate (gate.max_p99_ms)"
        yield Finding("gate", "warn", said)


def _strategy(case: _Case) -> Iterator[Finding]:
    strategy = case.project.service.strategy
    if strategy.type == "recreate" and case.project.service.replicas == 1 and case.base:
        if not strategy.allow_downtime:
            said = "recreate stops the only replica before the new one runs"
            yield Finding(
                "strategy", "fail", said, "Set strategy.allow_downtime: true, or another type"
            )
        else:
            yield Finding("strategy", "warn", "there will be downtime; a rollback is cold")
    elif strategy.type == "canary" and not strategy.stages and case.base:
        said = "canary without stages moves all traffic at once, as blue-green does"
        yield Finding("strategy", "warn", said, "Add strategy.stages, or set type: blue-green")
    else:
        yield Finding("strategy", "ok", strategy.type)


def _target(case: _Case) -> Iterator[Finding]:
    yield from case.target.preflight(case.state)


CHECKS: tuple[Callable[[_Case], Iterator[Finding]], ...] = (
    _state_dir,
    _app,
    _model,
    _python,
    _files,
    _requests,
    _secrets,
    _memory,
    _cpus,
    _gate,
    _strategy,
    _target,
)
"""A new check is a new function and a new row."""


def _tried(check: str, action: Callable[[], str]) -> Finding:
    """`ok` with what `action` tells, or `fail` with the error that it raises."""
    try:
        return Finding(check, "ok", action())
    except OpsctlError as error:
        said = f"{error.what}: {error.why}" if error.why else error.what
        return Finding(check, "fail", said, error.next_step)
