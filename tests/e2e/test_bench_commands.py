"""`opsctl bench run`, `compare` and `trend` on releases that run."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import MakeSite
from tests.e2e.site import quick

pytestmark = pytest.mark.long


def test_releases_are_measured_compared_and_followed_and_machines_never_mixed(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(gate=True))
    site.good("deploy")
    site.good("bench", "run")
    (kept,) = (site.state / "benchmarks" / "r1").glob("*.json")
    assert site.deploy().exit_code == 0
    compared = site.good("bench", "compare", "r1", "r2").data
    assert {change["metric"] for change in compared["changes"]} == {"p50", "p90", "p99"}
    assert [caution.partition(":")[0] for caution in compared["cautions"]] == [
        "the runs were not interleaved"
    ]
    report = json.loads(kept.read_text())
    report["machine"] |= {"id": "another", "cpu": "another"}
    elsewhere = site.state / "benchmarks" / "r0" / "1.json"
    elsewhere.parent.mkdir()
    elsewhere.write_text(json.dumps({**report, "started": report["started"] - 1000.0}))
    compared = site.good("bench", "compare", "r0", "r1").data
    assert compared["cautions"][1] == "different machines (cpu): the ratio means little"
    trend = site.good("bench", "trend").data
    found = {name: trend[name]["series"][0]["releases"] for name in ("runs", "gates")}
    assert found == {"runs": ["r1"], "gates": ["r1", "r2"]}
    assert (trend["runs"]["left_out"], trend["gates"]["left_out"]) == (1, 0)
    assert "caution: 1 reports of other machines are left out" in site.text("bench", "trend")
    absent = site.run("bench", "compare", "r1", "r9")
    assert (absent.exit_code, absent.data["error"]["what"]) == (2, "there is no measurement of r9")
