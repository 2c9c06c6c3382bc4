"""Certificates of the front door: those that clients refuse, that end soon, that go wrong."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from opsctl.certificates import served
from tests.apps.processes import wait_until
from tests.certificates import issue
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick

pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing"),
    pytest.mark.long,
]

TLS = {"tls": {"certificate": "cert.pem", "private_key": "key.pem"}}


def balancer(site: Site) -> int:
    """The process of HAProxy."""
    return int((site.state / "run" / "haproxy.pid").read_text().split()[0])


def test_a_certificate_that_clients_refuse_is_refused_before_anything_is_touched(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(local=TLS, health={"tries": 2000}))
    issue(site.project.root, "old.example", days=-3)
    result = site.run("deploy")
    assert result.exit_code == 4, result.stderr
    assert "the certificate of old.example expired on " in result.data["reason"]
    assert "Renew the files of local.tls" in result.data["next_step"]
    issue(site.project.root, "new.example", days=30, from_days=1)
    result = site.run("deploy")
    assert result.exit_code == 4, result.stderr
    assert "the certificate of new.example is not valid before " in result.data["reason"]
    assert not (site.state / "run" / "haproxy.cfg").exists()


def test_a_renewal_that_goes_wrong_is_told_and_shuts_no_door(make_site: MakeSite) -> None:
    site = make_site(quick(local=TLS, health={"tries": 2000}))
    issue(site.project.root, "soon.example", days=5)
    result = site.good("deploy")
    assert "the certificate of soon.example ends on " in result.stderr
    health = site.good("health").data["findings"]
    told = {finding["check"]: finding for finding in health}
    assert told["certificate"]["status"] == "warn"
    assert told["certificate"]["what"].startswith("the certificate of soon.example ends on ")
    assert "target" not in told

    (site.project.root / "key.pem").write_text("half a ke")
    wait_until(lambda: site.status()["observed"]["trouble"] != "", "the trouble is told", 60)
    stays = "the last good certificate stays in force: "
    assert f"  trouble: {stays}" in site.text("status")
    told = {f["check"]: f for f in site.good("health").data["findings"]}
    assert told["target"]["status"] == "warn"
    assert told["target"]["what"].startswith(stays)

    before = balancer(site)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: balancer(site) != before, "the balancer is back", 60)
    wait_until(lambda: site.status()["observed"]["balancer_up"], "it is up", 60)
    port = int(site.status()["observed"]["front_url"].rsplit(":", 1)[1])
    assert served("127.0.0.1", port, 30).name == "soon.example"
    # A deploy is refused as long as that is so; what serves can be brought back.
    assert site.deploy().exit_code == 4
    assert site.good("resume").data["serving_release"] == "r1"

    issue(site.project.root, "good.example", days=90)
    wait_until(lambda: not site.status()["observed"]["trouble"], "the trouble is over", 60)
    assert served("127.0.0.1", port, 30).name == "good.example"
    told = {finding["check"]: finding for finding in site.good("health").data["findings"]}
    assert told["certificate"]["status"] == "ok"
