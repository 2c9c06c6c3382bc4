"""`opsctl diff`: what a deploy would change, what differs from what was deployed; 0 or 3."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from opsctl.commands.diff import changed
from tests.apps.processes import wait_until
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick


def test_settings_are_compared_by_their_path_and_secrets_are_masked() -> None:
    before = {"replicas": 2, "app": {"env": {"A": "1", "DB_PASSWORD": "old"}, "cpus": [0]}}
    after = {"replicas": 3, "app": {"env": {"DB_PASSWORD": "new", "B": "2"}, "cpus": [0]}}
    assert [str(one) for one in changed(before, after)] == [
        "replicas: 2 → 3",
        "app.env.A: 1 → None",
        "app.env.DB_PASSWORD: *** → ***",
        "app.env.B: None → 2",
    ]
    assert list(changed(before, before)) == []


def edit(site: Site, **service: Any) -> None:
    data = yaml.safe_load(site.project.config.read_text())
    (only,) = data["services"].values()
    only.update(service)
    site.project.config.write_text(yaml.safe_dump(data))


@pytest.mark.long
def test_what_a_deploy_would_change_and_what_was_changed_behind_it(make_site: MakeSite) -> None:
    site = make_site(quick(health={"tries": 60}))
    first = site.run("diff")
    assert (first.exit_code, first.data["serving_release"]) == (3, None)
    site.good("deploy")
    same = site.run("diff")
    assert (same.exit_code, same.data["outcome"]) == (0, "same")
    # The file says something else now.
    site.change(Candidate("good"))
    edit(site, replicas=2)
    found = site.run("diff")
    assert (found.exit_code, found.data["outcome"]) == (3, "differences")
    told = {change["what"]: (change["before"], change["after"]) for change in found.data["deploy"]}
    assert told["replicas"] == (1, 2)
    assert "content of r1 (application, model or launch settings)" in told
    assert found.data["live"] == []
    # After a deploy of it nothing differs.
    site.good("deploy")
    wait_until(lambda: site.run("diff").exit_code == 0, "nothing differs after a deploy")


@pytest.mark.long
def test_files_that_were_edited_in_a_release_and_a_stopped_service_are_told(site: Site) -> None:
    edited = next((site.state / "releases" / "r1" / "app").glob("*.py"))
    edited.chmod(0o644)
    edited.write_text(edited.read_text() + "\n# by hand\n")
    found = site.run("diff")
    assert found.exit_code == 3
    (only,) = found.data["live"]
    assert (only["object"], only["path"], only["found"]) == ("files of r1", "changed", edited.name)
