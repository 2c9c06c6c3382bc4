"""Whole deploys whose gate asks a real Prometheus, old release against new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.apps.project import SERVICE, Candidate
from tests.bench.prometheus_server import RunningPrometheus, prometheus
from tests.e2e.refusal import refuse, refuse_untouched
from tests.e2e.site import Site, new_site, quick
from tests.report.document import parse

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

QUERY = 'queue_length{instance="{host}:{health_port}"}'


def queue(**more: Any) -> dict[str, Any]:
    """Settings of a gate that asks for the length of the queue."""
    return {"name": "queue", "query": QUERY, **more}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    with prometheus(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, server: RunningPrometheus) -> Iterator[Site]:
    """A release that serves, and a Prometheus that scrapes wherever a replica may listen."""
    site = new_site(tmp_path_factory.mktemp("site"), quick())
    service = yaml.safe_load(site.project.config.read_text())["services"][SERVICE]
    first, last = service["local"]["replica_ports"]
    server.watch([f"127.0.0.1:{port}" for port in range(first, last + 1)])
    site.good("deploy")
    server.await_metric("queue_length")
    yield site
    site.close()


def asking(site: Site, server: RunningPrometheus, query: dict[str, Any]) -> None:
    """From now on the gate asks for this query too."""
    asked = {"url": server.url, "queries": [query], "interval_s": 0.5}
    gate = {"enabled": True, "budget_s": 60, "prometheus": asked}
    # Two seconds, so that Prometheus has scraped the fresh replicas before their values count.
    site.with_options(gate=gate, bench={"warmup_s": 2, "warmup_max_s": 4})


def test_a_metric_that_got_worse_rolls_back_and_one_that_is_the_same_deploys(
    site: Site, server: RunningPrometheus
) -> None:
    asking(site, server, queue())
    refusal = refuse(site, Candidate("longer_queue", 10, {"queue_length": 6.0}))
    assert (refusal.step, refusal.what) == ("gate", "the benchmark gate failed")
    assert refusal.why == "the candidate is worse in queue (+50.0%)"

    deployed = site.deploy(Candidate("code"))
    assert (deployed.exit_code, deployed.data["outcome"]) == (0, "deployed"), deployed.stderr
    assert "no worse in queue" in deployed.stderr
    reports, number = site.state / "reports", f"{deployed.data['rollout']:04d}"
    gate = json.loads((reports / number / "gate-1.json").read_text())
    found = gate["metrics"]["prometheus:queue"]
    assert (found["query"], found["outcome"]) == (QUERY, "pass")
    for arm in ("baseline", "candidate"):
        assert set(found["values"][arm]) - {None} == {4.0}, "a scrape may be lost"
    assert site.report(deployed)["benchmark"]["reason"] == gate["reason"]
    assert gate["reason"].endswith("; no worse in queue")
    page = parse((reports / f"{number}.html").read_text())
    assert "Change of queue" in [one.text for one in page.all("title")]
    assert "| queue |" in (reports / f"{number}.md").read_text()


def test_a_metric_that_the_candidate_does_not_tell_is_no_data_and_no_pass(
    site: Site, server: RunningPrometheus
) -> None:
    asking(site, server, queue())
    refusal = refuse(site, Candidate("no_queue", 10, {"queue_length": None}))
    assert refusal.what == "the benchmark gate is no_data"
    assert "queue has too few values" in refusal.why
    assert "of the candidate: no sample" in refusal.why
    assert refusal.report["benchmark"]["reason"] == refusal.why


def test_a_misnamed_metric_is_refused_before_anything_is_touched(
    site: Site, server: RunningPrometheus
) -> None:
    asking(site, server, queue(query=QUERY.replace("queue_length", "queue_lenght")))
    refused = refuse_untouched(site)
    assert refused.data["reason"].startswith(
        "preflight failed: Prometheus has never had a metric queue_lenght: "
    )
    assert refused.data["reason"].endswith("; the nearest one is queue_length")
    assert refused.data["next_step"].startswith("Correct gate.prometheus.queries")
