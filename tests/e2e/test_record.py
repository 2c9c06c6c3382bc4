"""`opsctl bench record`: users' requests at the load balancer become a file that is replayed."""

from __future__ import annotations

import http.client
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.apps.processes import wait_until
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Began, Site, quick

pytestmark = pytest.mark.long

PREDICT = "/v1/models/light:predict"


def ask(site: Site, body: bytes, path: str = PREDICT) -> int:
    """One user's request; the status of its answer."""
    door = http.client.HTTPConnection("127.0.0.1", site.project.port, timeout=10)
    door.request("POST", path, body, {"Content-Type": "application/json"})
    status = door.getresponse().status
    door.close()
    return status


def begin_recording(site: Site, file: Path, *more: str) -> Began:
    """Start a recording and return when the load balancer tells of requests."""
    began = site.begin("bench", "record", str(file), "--seconds", "60", *more)
    wait_until(lambda: "from now on" in began.output, "it records", 30.0)
    return began


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_requests_are_recorded_with_fields_blank_and_replayed(make_site: MakeSite) -> None:
    site = make_site(quick(bench={"redact": ["instances.*.1"]}))
    site.good("deploy")
    file = site.home / "recorded.jsonl"
    began = begin_recording(site, file, "--count", "3", "--redact", "instances.1.0")
    assert ask(site, b"{}") == 400
    assert ask(site, b"{}", "/elsewhere") == 404
    wanted = [[[1, 2, 3, 4]], [[5, 6, 7, 8], [9, 10, 11, 12]], [[0.5, 1, 1, 1]]]
    for instances in wanted:
        assert ask(site, json.dumps({"instances": instances}).encode()) == 200
    assert began.end() == 0, began.output
    assert began.data["requests"] == 3
    assert began.data["left_out"] == {"not answered with 2xx": 1, "another path or method": 1}
    assert lines_of(file) == [[1, 0, 3, 4], [5, 0, 7, 8], [0, 0, 11, 12], [0.5, 0, 1, 1]]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (site.state / "run" / "record.sock").exists()
    site.with_options(bench={"requests_file": str(file)})
    figures = site.good("bench", "run").data["batch_sizes"]["1"]["candidate"]
    assert figures["errors"] == 0 and figures["requests"] > 0


def test_large_bodies_are_whole_or_left_out_and_a_killed_recording_leaves_nothing(
    standing: Site,
) -> None:
    site = standing
    killed = begin_recording(site, site.home / "killed.jsonl")
    killed.kill()
    rows = {
        size: json.dumps({"instances": [[1, 2, 3, 4]] * size}).encode() for size in (3000, 9000)
    }
    assert len(rows[3000]) < 48_000 < 65_000 < len(rows[9000])
    file = site.home / "recorded.jsonl"
    began = begin_recording(site, file, "--count", "2")
    for size in (9000, 3000, 3000):
        assert ask(site, rows[size]) == 200
    assert began.end() == 0, began.output
    assert began.data["left_out"] == {"too long to be passed on": 1}
    assert lines_of(file) == [[1, 2, 3, 4]] * 6000


def test_a_share_of_the_requests_is_recorded_and_nobody_else_can_listen(
    standing: Site,
) -> None:
    site = standing
    began = begin_recording(site, site.home / "share.jsonl", "--share", "0.3", "--count", "30")
    second = site.run("bench", "record", str(site.home / "second.jsonl"))
    assert second.exit_code == 30
    assert "recorded already" in second.data["error"]["what"]
    sent = 0
    while began.process.poll() is None and sent < 2000:
        assert ask(site, b'{"instances": [[1, 2, 3, 4]]}') == 200
        sent += 1
    assert began.end() == 0, began.output
    # 30 of a share of 0.3 come after 100 on average; outside of 45 … 200 once in a million times.
    assert 45 <= sent <= 200


def test_a_recording_without_users_says_so(standing: Site) -> None:
    site = standing
    file = site.home / "nobody.jsonl"
    result = site.run("bench", "record", str(file), "--seconds", "1")
    assert (result.exit_code, result.data["outcome"]) == (15, "no_data")
    assert not file.exists()
    refused = site.run("bench", "record", str(site.home / "no-folder" / "x"))
    assert refused.exit_code == 2
