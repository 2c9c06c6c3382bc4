"""`opsctl preflight`: what stands against a deploy, without one."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.rollout import plan_request
from opsctl.config.settings import Project
from opsctl.errors import PreflightRefused
from opsctl.model import DesiredState
from opsctl.plan import plan_deploy
from opsctl.reader import reader


def preflight(project: Project) -> Outcome:
    """Every finding against the fullest state of a deploy; 4 when one of them is a failure."""
    from opsctl.checks.preflight import preflight as find

    look = reader(project)
    before = look.last_state().without_baselines()
    request = plan_request(project, look.store.next_name(), before.serving_release, before)
    states = [step.state for step in plan_deploy(request) if step.state]
    findings = find(project, look.target, look.store, max(states, key=_replicas, default=before))
    failed = any(finding.status == "fail" for finding in findings)
    lines = [
        f"{one.status:7s} {one.check}: {one.what}"
        + (f" → {one.next_step}" if one.next_step else "")
        for one in findings
    ]
    return simple(
        "refused" if failed else "ok",
        "\n".join(lines),
        PreflightRefused.exit_code if failed else 0,
        findings=[finding.to_dict() for finding in findings],
    )


def _replicas(state: DesiredState) -> int:
    return sum(share.replicas for share in state.shares)
