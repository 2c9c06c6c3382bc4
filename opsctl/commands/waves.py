"""`deploy --env a,b,c`: the same content to each environment in turn, until one refuses it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from opsctl.checks.health import check_service
from opsctl.commands import rollout
from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import Interrupted, OpsctlError
from opsctl.model import Json
from opsctl.reader import reader
from opsctl.session import Options

LOOK_S = 2.0
UNHEALTHY = 13


@dataclass(frozen=True)
class Waves:
    """What is deployed where, in this order, and how long each must stay well before the next."""

    projects: Sequence[Project]
    soak_s: float


def deploy(waves: Waves, console: Console, options: Options) -> Outcome:
    """Deploy to each environment; the first that does not end well is the last one touched.

    What was deployed stays: the same command again finds it unchanged, and goes on from there.
    """
    rows: list[Json] = []
    for number, project in enumerate(waves.projects, start=1):
        name = project.environment
        console.tell(f"environment {name} ({number} of {len(waves.projects)})")
        ended = _one(project, console, options)
        last = number == len(waves.projects)
        if not ended.exit_code and not last:
            ended = _soaked(project, console, waves.soak_s, ended)
        rows.append({"environment": name, **ended.data})
        if ended.exit_code:
            return _summed_up(waves, rows, ended)
    return _summed_up(waves, rows, ended)


def _one(project: Project, console: Console, options: Options) -> Outcome:
    """One environment's deploy; an error is its outcome, as those before it must be told too."""
    try:
        return rollout.deploy(project, console, options)
    except Interrupted:
        raise
    except OpsctlError as error:
        console.error(error)
        data = {"outcome": "error", "exit_code": error.exit_code, "error": error.to_dict()}
        return Outcome(error.exit_code, data, str(error))


def _soaked(project: Project, console: Console, soak_s: float, ended: Outcome) -> Outcome:
    """The same outcome when the service stays well for the soak time."""
    if not soak_s:
        return ended
    console.tell(f"{project.environment} is watched for {soak_s:g} s")
    target = reader(project).target
    end = time.monotonic() + soak_s
    while (left := end - time.monotonic()) > 0:
        bad = [one for one in check_service(target, project) if one.status == "fail"]
        if bad:
            why = "; ".join(f"{one.check}: {one.what}" for one in bad)
            text = f"{project.environment} did not stay well after its deploy: {why}"
            data = {**ended.data, "outcome": "unhealthy", "exit_code": UNHEALTHY, "reason": why}
            return Outcome(UNHEALTHY, data, text)
        time.sleep(min(LOOK_S, left))
    return ended


def _summed_up(waves: Waves, rows: Sequence[Json], ended: Outcome) -> Outcome:
    """Each environment on a line, those that were not begun too."""
    lines = [f"{row['environment']}: {row['outcome']}" for row in rows]
    left = [project.environment for project in waves.projects[len(rows) :]]
    lines += [f"{name}: not begun" for name in left]
    if ended.exit_code:
        at = rows[-1]["environment"]
        lines += [ended.text, f"See: opsctl status -e {at}. Then run the same command again"]
    data: Json = {
        "outcome": "stopped" if ended.exit_code else "deployed",
        "exit_code": ended.exit_code,
        "environments": list(rows),
        "not_begun": left,
        "serving_release": rows[-1].get("serving_release"),
    }
    return Outcome(ended.exit_code, data, "\n".join(lines))
