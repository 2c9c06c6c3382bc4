"""Gates with queries to a real Prometheus that scrapes both arms."""

from __future__ import annotations

import http.server
import math
import re
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import requests

from opsctl import bench
from opsctl.config.settings import Prometheus, PrometheusQuery
from opsctl.errors import ConfigError
from opsctl.model import Endpoint
from tests.bench.prometheus_server import RunningPrometheus, exposed, prometheus
from tests.bench.server import Served, running
from tests.bench.test_run import EQUAL, SHORT, gated, never, request

pytestmark = pytest.mark.long

INTERVAL_S = 0.2
"""Between values of gauges that never change: shorter than that between scrapes."""

QUEUE = PrometheusQuery(name="queue", query='queue_length{instance="{host}:{port}"}')

OLD = {"queue_length": 4.0, "longer_queue": 4.0, "cache_hits": 90.0, "broken_queue": math.nan}
NEW = {"queue_length": 4.0, "longer_queue": 6.0, "cache_hits": 45.0, "broken_queue": 50.0}


@dataclass(frozen=True)
class Site:
    """Prometheus and two equally fast arms whose gauges it scrapes."""

    prometheus: RunningPrometheus
    old: Served
    new: Served


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        prometheus(tmp_path_factory.mktemp("prometheus")) as server,
        running(replace(EQUAL, metrics=exposed(OLD))) as old,
        running(replace(EQUAL, metrics=exposed(NEW))) as new,
    ):
        server.scrape(old.endpoint, new.endpoint)
        yield Site(server, old, new)


def gate_of(site: Site, query: PrometheusQuery) -> bench.GateReport:
    """A gate of both arms with one query."""
    asked = Prometheus(url=site.prometheus.url, queries=(query,), interval_s=INTERVAL_S)
    gate = replace(SHORT, prometheus=asked, budget_s=60.0)
    return gated(request(site.old, site.new, gate=gate))


def about(metric: str, query: PrometheusQuery = QUEUE) -> PrometheusQuery:
    """The query for another gauge."""
    return replace(query, query=f'{metric}{{instance="{{host}}:{{port}}"}}')


def test_a_metric_that_is_the_same_passes_and_its_values_are_in_the_report(
    site: Site,
) -> None:
    report = gate_of(site, QUEUE)
    assert (report.outcome, report.reason_kind) == ("pass", "proved")
    assert report.reason.endswith("; no worse in queue")
    found = report.data["metrics"]["prometheus:queue"]
    assert found["outcome"] == "pass"
    for arm in ("baseline", "candidate"):
        assert set(found["values"][arm]) - {None} == {4.0}, "a scrape may be lost"
    assert len(found["values"]["candidate"]) >= 12
    assert found["ratio"] == pytest.approx(1.0, abs=0.005)


def test_a_metric_that_got_worse_fails_the_gate(site: Site) -> None:
    report = gate_of(site, about("longer_queue"))
    assert (report.outcome, report.reason_kind) == ("fail", "regression")
    assert report.reason == "the candidate is worse in queue (+50.0%)"
    assert report.data["deciding_metric"] == "prometheus:queue"


def test_a_metric_of_which_more_is_better_fails_when_it_falls(site: Site) -> None:
    hits = PrometheusQuery(
        name="hits", query='cache_hits{instance="{host}:{port}"}', better="higher"
    )
    report = gate_of(site, hits)
    assert (report.outcome, report.reason) == (
        "fail", "the candidate is worse in hits (+100.0%)",
    )  # fmt: skip


def test_a_misnamed_metric_is_a_configuration_error_that_names_the_nearest(
    site: Site,
) -> None:
    query = replace(QUEUE, query='max(queue_lenght{instance="{host}:{port}"})')
    with pytest.raises(ConfigError) as caught:
        gate_of(site, query)
    assert caught.value.what == "Prometheus has never had a metric queue_lenght"
    assert caught.value.why.endswith("the nearest one is queue_length")


def test_labels_that_fit_no_series_are_no_data_and_never_a_pass(site: Site) -> None:
    query = replace(QUEUE, query='queue_length{instance="{host}:{port}",pod="none"}')
    report = gate_of(site, query)
    assert (report.outcome, report.reason_kind) == ("no_data", "no_answer")
    said = (
        r"queue has too few values: (\d+) of \1 values of the candidate: no sample \(is it scraped"
    )
    assert re.match(said, report.reason), report.reason


def test_a_baseline_of_nan_passes_nobody_and_limits_judge_beside_it(
    site: Site,
) -> None:
    broken = about("broken_queue")
    assert gate_of(site, broken).outcome == "no_data"
    report = gate_of(site, replace(broken, most=10.0))
    assert (report.outcome, report.reason_kind) == ("fail", "slo")
    assert report.reason == "queue is 50 (median), its `most` is 10"


def test_a_query_that_prometheus_cannot_read_is_refused_with_its_words(
    site: Site,
) -> None:
    query = replace(QUEUE, query='sum(queue_length{instance="{host}:{port}"}')
    with pytest.raises(ConfigError, match="unclosed left parenthesis"):
        gate_of(site, query)


def test_a_query_of_several_series_is_refused_with_two_of_them(site: Site) -> None:
    query = replace(QUEUE, query='{instance="{host}:{port}"}')
    with pytest.raises(ConfigError, match=r"gives \d+ series"):
        gate_of(site, query)


def test_a_prometheus_that_does_not_answer_is_no_data() -> None:
    nobody = Prometheus(url="http://127.0.0.1:1", queries=(QUEUE,), interval_s=0.2)
    gate = replace(SHORT, prometheus=nobody)
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new, gate=gate))
    assert report.outcome == "no_data"
    assert report.reason == "Prometheus at http://127.0.0.1:1 can't be asked: Connection refused"


def test_before_a_deploy_a_misnamed_metric_is_refused_when_an_old_release_runs(
    site: Site,
) -> None:
    wrong = replace(QUEUE, query='queu_length{instance="{host}:{port}"}')
    asked = Prometheus(url=site.prometheus.url, queries=(wrong,))
    check = bench.QueryCheck(asked, Path())
    bench.check_prometheus(check, tell=print, interrupt=never)
    with pytest.raises(ConfigError, match="never had a metric queu_length"):
        bench.check_prometheus(
            replace(check, arms=(Endpoint("127.0.0.1", 1),)), tell=print, interrupt=never
        )


TOKEN = "long-and-secret"


class _Guarded(http.server.BaseHTTPRequestHandler):
    """Asks Prometheus for those who have the token."""

    upstream = ""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, b"")
            return
        self._answer(200, requests.get(self.upstream + self.path, timeout=10).content)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def guarded(upstream: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a TLS server with a bearer token before Prometheus, and its certificate."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out",
         str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (_Guarded,), {"upstream": upstream})
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.socket = context.wrap_socket(web.socket, server_side=True)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{web.server_port}", certificate
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


def test_tls_with_an_own_authority_and_a_bearer_token(site: Site, tmp_path: Path) -> None:
    said: list[str] = []
    with guarded(site.prometheus.url, tmp_path) as (url, certificate):
        asked = Prometheus(url=url, queries=(QUEUE,), ca_file=certificate.name)
        check = bench.QueryCheck(asked, tmp_path, TOKEN)
        bench.check_prometheus(check, tell=said.append, interrupt=never)
        assert said == []
        with pytest.raises(ConfigError, match="refuses opsctl"):
            bench.check_prometheus(replace(check, token="wrong"), tell=said.append, interrupt=never)
        system = replace(asked, ca_file=None)
        bench.check_prometheus(replace(check, prometheus=system), tell=said.append, interrupt=never)
    assert len(said) == 1 and "certificate verify failed" in said[0], said
    assert urllib.parse.urlsplit(url).hostname == "127.0.0.1"
