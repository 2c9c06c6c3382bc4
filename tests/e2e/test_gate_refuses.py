"""The real benchmark gate, new against old: candidates that are slower are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.apps.processes import wait_until
from tests.apps.project import Candidate, Options
from tests.e2e.conftest import MakeSite
from tests.e2e.refusal import Refusal, refuse
from tests.e2e.site import quick

WORK_MS = 40.0
"""Long beside the noise of a busy machine, so that a fifth more can be told."""

GATE = {
    "enabled": True,
    "budget_s": 25,
    "min_pairs": 100,
    "tolerated_p50_percent": 5,
    "refused_p50_percent": 15,
    "metrics": ["p50", "errors"],
}
BENCH = {"rate_per_s": 25, "warmup_requests": 5}


def unhurried() -> Options:
    """A service whose predictions take 40 ms, not gated as yet."""
    return replace(quick(bench=BENCH), work_ms=WORK_MS)


def refused_by_the_gate(make_site: MakeSite, slower_by: str) -> Refusal:
    """A deploy of a candidate that is 20 % slower than what serves."""
    site = make_site(unhurried())
    site.good("deploy")
    site.with_options(bench=BENCH, gate=GATE)
    fault = {"slower_percent": 20.0, "slower_by": slower_by}
    return refuse(site, Candidate("slower", 10, fault))


@pytest.mark.parametrize("slower_by", ["sleep", pytest.param("busy", marks=pytest.mark.long)])
def test_a_candidate_that_is_a_fifth_slower_is_refused_by_the_gate(
    make_site: MakeSite, slower_by: str
) -> None:
    refusal = refused_by_the_gate(make_site, slower_by)
    assert refusal.step == "gate"
    # On a machine that is too noisy nothing is decided, which refuses as well.
    assert refusal.what in (
        "the benchmark gate failed",
        "the benchmark gate is inconclusive",
        "the benchmark gate is no_data",
    )
    benchmark = refusal.report["benchmark"]
    assert benchmark["outcome"] in ("fail", "inconclusive", "no_data")
    assert benchmark["reason"] in refusal.why
    row = benchmark["batch_sizes"][0]
    if benchmark["outcome"] == "fail":
        assert row["candidate"]["p50_ms"] > row["baseline"]["p50_ms"] >= WORK_MS


@pytest.mark.long
def test_a_deploy_killed_in_its_gate_decides_nothing_and_keeps_what_it_measured(
    make_site: MakeSite,
) -> None:
    site = make_site(unhurried())
    site.good("deploy")
    site.with_options(bench=BENCH, gate=GATE)
    with site.users(rate=20):
        deploy = site.begin_deploy()
        artifacts = site.state / "reports" / "0002"
        partial = artifacts / "gate-1.partial.jsonl"
        wait_until(
            lambda: partial.exists() and partial.read_text().count("\n") > 20,
            "the gate measures",
            60.0,
        )
        deploy.kill()
        assert not (artifacts / "gate-1.json").exists(), "no verdict from half of a measurement"
        measured = partial.read_text()
        assert site.answers(10) == {"r1": 10}
        resumed = site.run("resume")
    assert resumed.exit_code in (0, 10), resumed.stderr
    kept = artifacts / "gate-1.partial.1.jsonl"
    assert kept.read_text() == measured
    count = measured.count("\n") - 1
    told = f"{count} rounds of an earlier attempt decide nothing: measured again"
    assert f"{told}; they are kept in {kept}" in resumed.stderr
    verdict = json.loads((artifacts / "gate-1.json").read_text())
    assert verdict["outcome"] == site.report(resumed)["benchmark"]["outcome"]


@pytest.mark.long
def test_a_candidate_with_absolute_limits_too_tight_is_refused_on_a_first_deploy(
    make_site: MakeSite,
) -> None:
    gate = {**GATE, "budget_s": 10, "max_p99_ms": 5}
    site = make_site(unhurried())
    site.with_options(bench=BENCH, gate=gate)
    result = site.run("deploy")
    assert (result.exit_code, result.data["serving_release"]) == (12, None), result.stderr
    assert "gate failed" in result.data["reason"]
    assert "p99" in result.data["reason"]
    assert site.replicas() == []


@pytest.mark.long
def test_an_undecided_gate_that_pauses_goes_on_when_a_person_approves(
    make_site: MakeSite,
) -> None:
    # 6 s at 25 pairs a second are fewer pairs than one look at p99 takes: nothing is decided.
    gate = {
        **GATE, "budget_s": 6, "min_pairs": 100, "metrics": ["p99"], "beta": 1e-6, "alpha": 1e-6,
        "on_inconclusive": "pause",
    }  # fmt: skip
    site = make_site(quick())
    site.good("deploy")
    site.with_options(bench=BENCH, gate=gate)
    with site.users(rate=20):
        waiting = site.deploy()
        assert waiting.exit_code == 20, waiting.stderr
        assert "opsctl approve" in waiting.data["error"]["next_step"]
        assert site.answers(10) == {"r1": 10}
        done = site.good("approve")
    assert (done.data["outcome"], done.data["serving_release"]) == ("deployed", "r2")
