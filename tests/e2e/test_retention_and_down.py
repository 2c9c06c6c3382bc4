"""What is kept, what goes, and what is left after the end: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.processes import wait_until
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick


def releases(site: Site) -> list[str]:
    """Names of the releases that are kept, oldest first."""
    rows = site.good("releases", "list").data["releases"]
    folders = {path.parent.name for path in (site.state / "releases").glob("*/release.json")}
    names = [row["release"] for row in rows]
    assert set(names) == folders
    return names


@pytest.mark.long
def test_old_releases_go_but_never_one_that_serves_or_can_be_gone_back_to(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(retention={"releases": 1}))
    site.good("deploy")
    assert site.deploy().exit_code == 0
    for _ in range(3):
        bad = site.deploy(Candidate("wrong_value", 10, {"value_error": 1e-3}))
        assert bad.exit_code == 10
    # r2 serves, r1 is warm and proved; of the three refused ones the newest is kept.
    assert releases(site) == ["r1", "r2", "r5"]
    assert site.good("rollback").data["serving_release"] == "r1"
    assert site.answers(5) == {"r1": 5}
    kept = {path.name for path in (site.state / "secrets").glob("*.json")}
    assert kept <= {"r1.json", "r2.json", "r5.json"}


@pytest.mark.long
def test_reports_beyond_retention_go(make_site: MakeSite) -> None:
    site = make_site(quick(retention={"reports": 2}))
    site.good("deploy")
    for _ in range(3):
        assert site.deploy().exit_code == 0
    names = sorted(p.name for p in (site.state / "reports").glob("[0-9]*.json"))
    assert names == ["0003.json", "0004.json"]
    # What was done stays known for longer than its reports.
    assert [r["rollout"] for r in site.good("history").data["rollouts"]] == [4, 3, 2, 1]
    assert site.good("audit").data["outcome"] == "ok"
    assert site.good("rollback").data["serving_release"] == "r3"


@pytest.mark.long
def test_a_warm_release_retires_by_itself_and_a_rollback_is_then_cold(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy={"rollback_window_s": 2}))
    site.good("deploy")
    assert site.deploy().exit_code == 0
    wait_until(lambda: site.pids("r1") == {}, "r1 retired", 30)
    with site.users() as users:
        back = site.good("rollback")
    assert back.data["serving_release"] == "r1"
    assert users.releases == {"r1", "r2"}
    assert site.good("health").data["outcome"] == "healthy"


def test_down_leaves_no_process_and_no_file(make_site: MakeSite) -> None:
    site = make_site(quick(replicas=2))
    files = {path for path in site.project.root.rglob("*") if path.is_file()}
    site.good("deploy")
    assert site.deploy().exit_code == 0
    assert len(site.processes()) >= 4
    result = site.good("down", "--yes")
    assert result.data["outcome"] == "down"
    assert site.processes() == {}
    assert {path for path in site.project.root.rglob("*") if path.is_file()} == files
    assert not (site.project.root / ".opsctl").exists()
    assert site.good("down", "--yes").data["outcome"] == "nothing_to_stop"


def test_down_in_the_middle_of_a_rollout_is_refused_while_somebody_works(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy={"stages": [{"weight": 20, "hold_s": 60}]}))
    site.good("deploy")
    deploy = site.begin_deploy()
    site.wait_for_traffic("r2")
    assert site.run("down", "--yes").exit_code == 21
    assert site.answers(5).keys() <= {"r1", "r2"}
    deploy.kill()
    assert site.good("down", "--yes").data["outcome"] == "down"
    assert site.processes() == {}
    assert not Path(site.state).exists()


@pytest.mark.long
def test_two_clones_of_a_project_do_not_meet(make_site: MakeSite) -> None:
    one, two = make_site(), make_site()
    one.good("deploy")
    two.good("deploy")
    two.good("down", "--yes")
    assert one.answers(5) == {"r1": 5}
    assert one.good("health").data["outcome"] == "healthy"
