"""bench record: requests of real users, sampled at the load balancer, as a file to replay."""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager
from pathlib import Path

from opsctl.bench.recorded import Recording, Wanted, heard_in, open_new, paths_of
from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import ConfigError, OpsctlError, TargetUnreachable
from opsctl.reader import reader
from opsctl.targets.target import Tap

POLL_S = 0.2

PROGRESS_S = 5.0

NOTHING_RECORDED = 15
"""As for a gate without data."""

INTERRUPTED = 130


def record(project: Project, console: Console, arguments: argparse.Namespace) -> Outcome:
    """Record until enough requests, bytes or seconds have come; Ctrl-C ends it and keeps them."""
    bench = project.service.bench
    if bench is None:
        raise ConfigError(
            f"services.{project.service_name}.bench is missing, so no path is known to record",
            next_step="See: opsctl config docs services.*.bench",
        )
    wanted = Wanted(
        bench.method,
        bench.path,
        paths_of([*bench.redact, *arguments.redact]),
        arguments.count,
        round(arguments.max_mb * 2**20),
        console.redact.json if console.redact else lambda value: value,
    )
    reading = reader(project)
    if reading.place.tap is None:
        raise ConfigError(
            f"requests can't be recorded on target {project.target}",
            why="what stands before the service there is not opsctl's, and tells it no bodies",
            next_step="Record in an environment with target local or docker.",
        )
    opening = reading.place.tap(arguments.share)
    if not reading.target.observe().balancer_up:
        raise TargetUnreachable("the load balancer does not run", next_step="See: opsctl status")
    path = Path(arguments.file)
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise ConfigError(f"{path} exists", next_step="Name a new file, or remove it first.")
    with open_new(part) as output:
        recording = Recording(wanted, output)
        try:
            stopped = _listen(opening, console, arguments, recording)
        except OpsctlError:
            if not recording.kept:
                part.unlink()
            raise
    part.rename(path)
    return _told(recording, path, stopped=stopped)


def _listen(
    opening: AbstractContextManager[Tap], console: Console, arguments: argparse.Namespace,
    recording: Recording,
) -> bool:  # fmt: skip
    """Take requests in until it is enough; True when a person ended it."""
    deadline = time.monotonic() + arguments.seconds
    told = time.monotonic()
    try:
        with opening as opened:
            console.tell(f"recording {arguments.share:.2%} of the requests that come from now on")
            while not recording.full and time.monotonic() < deadline:
                line = opened.next(POLL_S)
                heard = heard_in(line) if line else None
                if heard is not None:
                    recording.take(heard)
                if time.monotonic() - told >= PROGRESS_S:
                    told = time.monotonic()
                    console.tell(f"{recording.kept} of {arguments.count} requests recorded")
    except KeyboardInterrupt:
        return True
    return False


def _told(recording: Recording, path: Path, *, stopped: bool) -> Outcome:
    report = recording.report()
    lines = [f"{why}: {times} left out" for why, times in recording.skipped.items()]
    if not recording.kept:
        path.unlink()
        lines.append("nothing was recorded: no request of bench.method and bench.path came by")
        code = INTERRUPTED if stopped else NOTHING_RECORDED
        return Outcome(code, {"outcome": "no_data", "exit_code": code, **report}, "\n".join(lines))
    lines.append(f"{recording.kept} requests, {recording.lines} lines in {path}")
    lines.append("replay them: set bench.requests_file to it")
    code = INTERRUPTED if stopped else 0
    data = {"outcome": "recorded", "exit_code": code, "file": str(path), **report}
    return Outcome(code, data, "\n".join(lines))
