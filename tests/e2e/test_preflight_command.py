"""`opsctl preflight`: every check on its own; 4 when a deploy would be refused."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.site import Site, new_site, quick


def findings(site: Site) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in site.run("preflight").data["findings"]}


def test_what_stands_against_a_deploy_is_told_before_anything_is_there(tmp_path: Path) -> None:
    site = new_site(tmp_path, quick(resources={"cpus": [0]}))
    good = site.run("preflight")
    assert (good.exit_code, good.data["outcome"]) == (0, "ok")
    assert all(one["status"] in ("ok", "warn") for one in good.data["findings"])
    site.project.config.write_text(site.project.config.read_text().replace("- 0\n", "- 4095\n"))
    bad = site.run("preflight")
    assert (bad.exit_code, bad.data["outcome"]) == (4, "refused")
    assert findings(site)["cpus"]["status"] == "fail"
    assert "4095" in findings(site)["cpus"]["what"]
    assert not site.state.exists()
