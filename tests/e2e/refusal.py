"""What must hold whenever a candidate is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scripts.campaigns._opsctl import Result
from tests.apps.project import Candidate
from tests.e2e.site import Site

STEADY_S = 0.3
"""Users watch that much longer than the command runs."""


@dataclass(frozen=True)
class Refusal:
    """A refused deploy, with the one error that its report gives."""

    result: Result
    step: str
    what: str
    why: str
    next_step: str
    report: dict[str, Any]

    @property
    def candidate(self) -> str:
        """The release that was refused."""
        return str(self.result.data["release"])


def refuse(site: Site, candidate: Candidate, *, met: bool = False) -> Refusal:
    """Deploy a bad candidate while users watch. Asserts all that is the same for each of them.

    Exit code 10, a message with what, why and next step, the old release untouched: same processes,
    alone at the front door, no failed request; and nothing left of the candidate. `met`: users
    may have met it, as its fault shows itself late.
    """
    old = site.serving
    assert old is not None
    before = site.pids(old)
    with site.users() as users:
        result = site.deploy(candidate)
    assert (result.exit_code, result.data["outcome"]) == (10, "rolled_back"), result.stderr
    assert "after the rollout:" not in result.stderr, result.stderr
    assert result.data["serving_release"] == site.serving == old
    assert site.pids(old) == before
    assert {r["release"]: r["restarts"] for r in site.replicas()}[old] == 0
    assert met or users.releases == {old}
    assert site.answers(10) == {old: 10}
    refused = str(result.data["release"])
    assert site.pids(refused) == {}
    assert [p for p in site.processes().values() if f"--release {refused}" in p] == []
    return _read(site, result)


def refuse_untouched(site: Site, **env: str) -> Result:
    """Deploy what is refused with exit code 2 before anything is touched.

    Asserts that the same processes serve on, that no release was made and the rollout is closed.
    """
    serving, before, made = site.serving, _processes(site), _releases(site)
    with site.users() as users:
        refused = site.deploy(Candidate("code"), **env)
    assert refused.exit_code == 2, refused.stderr
    assert site.serving == serving
    assert _processes(site) == before
    assert _releases(site) == made
    assert users.releases == {serving}
    assert refused.data["serving_release"] == serving
    assert refused.data["next_step"] in refused.stderr
    # Nothing is left open that the next deploy would have to end.
    assert site.newest_records()[-1]["kind"] == "closed"
    return refused


def _processes(site: Site) -> dict[str, int]:
    return {replica["name"]: replica["pid"] for replica in site.replicas()}


def _releases(site: Site) -> list[str]:
    return sorted(path.name for path in (site.state / "releases").iterdir())


def _read(site: Site, result: Result) -> Refusal:
    report = site.report(result)
    failed = [step for step in report["steps"] if step["outcome"] == "failed"]
    assert len(failed) == 1
    error = failed[0]["error"]
    refusal = Refusal(
        result, failed[0]["id"], error["what"], error["why"], error["next_step"], report
    )
    assert refusal.what and refusal.why and refusal.next_step
    assert result.data["reason"] == f"{refusal.step} failed: {refusal.what}: {refusal.why}"
    assert result.data["next_step"] == refusal.next_step
    for part in (refusal.what, refusal.why, refusal.next_step):
        assert part in result.stderr
    return refusal
