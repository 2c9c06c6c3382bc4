"""How traffic goes from the old release to the new one, with users who must not notice."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.campaigns._opsctl import Result
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick

STAGES = {"stages": [{"weight": 20, "hold_s": 1}, {"weight": 50, "hold_s": 1}]}


def step(site: Site, result: Result, step_id: str) -> dict[str, Any]:
    """One step of the rollout's report."""
    return next(s for s in site.report(result)["steps"] if s["id"] == step_id)


def test_a_canary_takes_traffic_stage_by_stage_without_a_failed_request(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=STAGES))
    site.good("deploy")
    with site.users() as users:
        result = site.deploy()
    assert (result.exit_code, site.serving) == (0, "r2")
    assert users.releases == {"r1", "r2"}
    passed = [s["id"] for s in site.report(result)["steps"] if s["outcome"] == "passed"]
    assert passed == [
        "preflight", "build", "start", "smoke", "shift-20", "shift-50", "promote", "drain"
    ]  # fmt: skip
    assert site.answers(10) == {"r2": 10}
    assert site.report(result)["switch"]["failed_requests"] == 0


def test_an_old_release_stays_warm_and_a_rollback_starts_nothing(site: Site) -> None:
    assert site.deploy().exit_code == 0
    warm = site.pids("r1")
    assert len(warm) == 1
    with site.users() as users:
        back = site.good("rollback")
    assert back.data["serving_release"] == "r1"
    assert site.pids("r1") == warm
    assert users.releases == {"r1", "r2"}
    assert site.answers(10) == {"r1": 10}


@pytest.mark.long
def test_a_release_that_was_rolled_back_is_not_gone_back_to(site: Site) -> None:
    assert site.deploy().exit_code == 0
    site.good("rollback")
    again = site.run("rollback")
    assert again.exit_code == 2
    assert "no proved release is left" in again.data["error"]["what"]
    assert site.deploy().data["serving_release"] == "r3"
    assert site.good("rollback", "--preview").data["release"] == "r1"


@pytest.mark.long
def test_blue_green_gives_all_traffic_at_once_without_a_failed_request(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy={"type": "blue-green", "stages": []}))
    site.good("deploy")
    with site.users() as users:
        result = site.deploy()
    assert (result.exit_code, site.serving) == (0, "r2")
    assert users.releases == {"r1", "r2"}
    assert site.answers(10) == {"r2": 10}
    assert len(site.pids("r1")) == 1


def test_rolling_replaces_three_replicas_one_by_one_without_a_failed_request(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(replicas=3, strategy={"type": "rolling", "stages": []}))
    site.good("deploy")
    with site.users() as users:
        result = site.deploy()
    assert (result.exit_code, site.serving) == (0, "r2")
    assert users.releases == {"r1", "r2"}
    assert sorted(site.pids("r2")) == ["r2-1", "r2-2", "r2-3"]
    assert site.pids("r1") == {}
    assert site.answers(10) == {"r2": 10}


def test_recreate_without_leave_for_downtime_is_refused_with_nothing_touched(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy={"type": "recreate", "stages": []}))
    site.good("deploy")
    before = site.processes()
    result = site.deploy()
    assert result.exit_code == 4
    assert "allow_downtime" in result.stderr
    assert site.processes() == before
    assert site.answers(5) == {"r1": 5}


def test_recreate_of_the_only_replica_fails_requests_in_the_announced_downtime_only(
    make_site: MakeSite,
) -> None:
    recreate = {"type": "recreate", "stages": [], "allow_downtime": True}
    site = make_site(quick(strategy=recreate))
    site.good("deploy")
    site.change(Candidate("code"))
    assert "downtime" in site.opsctl.run("plan").stderr + str(site.good("plan").data)
    with site.users(failures=10**6) as users:
        result = site.run("deploy")
    assert (result.exit_code, site.serving) == (0, "r2")
    steps = [s for s in site.report(result)["steps"] if s["began"]]
    stop = next(s for s in steps if s["kind"] == "stop")
    promote = next(s for s in steps if s["kind"] == "promote")
    for failure in users.seen["failures"]:
        assert failure["ended"] >= stop["began"]
        assert failure["sent"] <= promote["ended"]
    assert site.pids("r1") == {}
    assert site.answers(10) == {"r2": 10}


@pytest.mark.long
def test_recreate_of_three_replicas_fails_no_request(make_site: MakeSite) -> None:
    site = make_site(quick(replicas=3, strategy={"type": "recreate", "stages": []}))
    site.good("deploy")
    with site.users():
        result = site.deploy()
    assert (result.exit_code, site.serving) == (0, "r2")
    assert len(site.pids("r2")) == 3
    assert site.answers(10) == {"r2": 10}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rolling", "recreate"])
def test_a_bad_candidate_in_the_middle_of_three_replicas_gives_all_three_back(
    make_site: MakeSite, kind: str
) -> None:
    strategy = {"type": kind, "stages": []}
    site = make_site(quick(replicas=3, strategy=strategy))
    site.good("deploy")
    with site.users() as users:
        result = site.deploy(Candidate("wrong_value", 10, {"value_error": 1e-3}))
    assert (result.exit_code, site.serving) == (10, "r1")
    assert users.releases == {"r1"}
    assert len(site.pids("r1")) == 3
    assert site.pids("r2") == {}


def test_an_approval_stage_waits_for_a_person_and_goes_on_with_approve(
    make_site: MakeSite,
) -> None:
    stages = [{"weight": 20, "hold_s": 0.2}, {"weight": 50, "hold_s": 0.2, "approval": True}]
    site = make_site(quick(strategy={"stages": stages, "promote_approval": True}))
    assert site.run("deploy").exit_code == 20
    assert site.good("approve").data["serving_release"] == "r1"
    with site.users() as users:
        first = site.deploy()
        assert first.exit_code == 20
        assert "50 %" in first.data["error"]["what"]
        assert first.data["serving_release"] == "r1"
        assert "opsctl approve" in first.data["error"]["next_step"]
        assert set(site.answers(40)) == {"r1", "r2"}
        second = site.run("approve", "--reason", "looks well")
        assert second.exit_code == 20
        assert "all traffic" in second.data["error"]["what"]
        third = site.good("approve")
    assert third.data["outcome"] == "deployed"
    assert users.releases == {"r1", "r2"}
    assert site.answers(10) == {"r2": 10}
    approvals = [r["request"] for r in site.report(third)["decision"]["requests"]]
    assert approvals == ["approve", "approve"]


def test_more_replicas_scale_the_release_that_serves(make_site: MakeSite) -> None:
    site = make_site()
    site.good("deploy")
    old = site.pids("r1")
    text = site.project.config.read_text()
    site.project.config.write_text(text.replace("replicas: 1", "replicas: 3"))
    with site.users() as users:
        more = site.good("deploy")
    assert (more.data["release"], len(site.pids("r1"))) == ("r1", 3)
    assert site.pids("r1")["r1-1"] == old["r1-1"]
    assert users.releases == {"r1"}
    site.project.config.write_text(text)
    with site.users():
        site.good("deploy")
    assert site.pids("r1") == old


def test_a_deploy_of_what_serves_already_changes_nothing(site: Site) -> None:
    before = site.pids("r1")
    again = site.good("deploy")
    assert (again.data["outcome"], again.data["release"]) == ("unchanged", "r1")
    assert site.pids("r1") == before
