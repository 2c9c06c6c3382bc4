"""config and plan: what is meant, before anything is done."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.rollout import plan as deploy_plan
from opsctl.config.settings import Project

DIFFERENCES = 3
"""Exit code of `plan --exit-code` when there is something to do."""


def config(arguments: argparse.Namespace) -> Outcome:
    """`config validate|show|schema|docs`."""
    from opsctl.config import docs, load, schema, show

    path = Path(arguments.config) if arguments.config else None
    chosen = {"environment": arguments.environment, "service": arguments.service}
    if arguments.action == "schema":
        made = schema.schema()
        return Outcome(0, made, json.dumps(made, indent=2))
    if arguments.action == "docs":
        return simple("ok", docs.document(arguments.key, markdown=arguments.markdown))
    if arguments.action == "show":
        shown = show.show(path, **chosen)
        return Outcome(0, shown.to_dict(), shown.to_yaml())
    document = load.load_document(path)
    services, environments = document.config.services, document.config.environments
    text = f"{document.label} is right: {', '.join(services)} in {', '.join(environments)}"
    return simple("valid", text, services=list(services), environments=list(environments))


def plan(project: Project, *, exit_code: bool) -> Outcome:
    """The steps of a deploy, with how long they took last time."""
    steps, look = deploy_plan(project)
    if not steps:
        return simple("unchanged", "nothing to do: what serves is what would be deployed", steps=[])
    lines = [f"{index:3d}. {step.title}" for index, step in enumerate(steps, 1)]
    going = look.open_progress()
    if going:
        lines.insert(0, f"rollout {going.rollout} is open; a deploy would end it first")
    if project.service.strategy.type == "recreate" and project.service.replicas == 1:
        lines.append("downtime: the only replica stops before the new one runs")
    return simple(
        "differences",
        "\n".join(lines),
        DIFFERENCES if exit_code else 0,
        steps=[step.to_dict() for step in steps],
    )
