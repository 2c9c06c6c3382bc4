"""A gate that runs elsewhere: nothing of what was asked is lost there, nor of what was found."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl import shell
from opsctl.bench.remote import Heard, files_of, fits, request_in
from opsctl.bench.report import GateRequest
from opsctl.config.load import load
from opsctl.errors import ConfigError, GateUndecided, TargetUnreachable
from opsctl.model import Endpoint
from tests.config.full import FULL

PREDICT = "/v1/models/m:predict"
CANDIDATE = Endpoint("10.0.0.2", 8501, 8080, name="light-r2-x")
BASELINE = Endpoint("10.0.0.1", 8501, 8080, name="light-r1-baseline-y")


def request_of(folder: Path, service: dict[str, Any], **more: Any) -> GateRequest:
    """The gate of a service's settings in `folder`."""
    document = {"services": {"light": {"app": {"directory": ".", "command": ["x"]}, **service}}}
    path = folder / "opsctl.yaml"
    path.write_text(yaml.safe_dump(document))
    project = load(path, environment=None, service=None)
    assert project.service.bench is not None
    given = {"baseline": BASELINE, "candidate": CANDIDATE, "seed": 7, **more}
    return GateRequest(bench=project.service.bench, gate=project.service.gate, root=folder, **given)


def written(request: GateRequest, folder: Path) -> Path:
    folder.mkdir()
    for name, data in files_of(request).items():
        (folder / name).write_bytes(data)
    return folder


def test_the_other_machine_reads_the_request_that_was_written(tmp_path: Path) -> None:
    (service,) = FULL["services"].values()
    gate = {key: value for key, value in service["gate"].items() if key != "prometheus"}
    bench = {**service["bench"], "requests_file": "samples/requests.jsonl"}
    bench.pop("body", None)
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "requests.jsonl").write_text("[1]\n[2]\n")
    request = request_of(tmp_path, {"bench": bench, "gate": gate})
    there = request_in(written(request, tmp_path / "there"))
    assert (there.gate, there.seed) == (request.gate, 7)
    assert (there.baseline, there.candidate) == (BASELINE, CANDIDATE)
    # All but where the bodies lie, which are the same.
    assert vars(there.bench) | {"requests_file": "samples/requests.jsonl"} == vars(request.bench)
    assert there.bench.requests_file is not None
    bodies = there.root / there.bench.requests_file
    assert bodies.read_text() == "[1]\n[2]\n"


def test_a_first_release_has_no_baseline_there_either(tmp_path: Path) -> None:
    request = request_of(tmp_path, {"bench": {"path": PREDICT}}, baseline=None)
    assert request_in(written(request, tmp_path / "there")).baseline is None


def test_bodies_that_are_missing_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    request = request_of(tmp_path, {"bench": {"path": PREDICT, "requests_file": "none.jsonl"}})
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        files_of(request)


def test_queries_of_prometheus_are_asked_from_here(tmp_path: Path) -> None:
    query = {"name": "q", "query": 'up{pod="{replica}"}', "most": 1}
    asked = {"url": "http://prometheus:9090", "queries": [query]}
    plain = request_of(tmp_path, {"bench": {"path": PREDICT}})
    assert fits(plain.gate)
    queried = request_of(tmp_path, {"bench": {"path": PREDICT}, "gate": {"prometheus": asked}})
    assert not fits(queried.gate)


def line(kind: str, value: object) -> str:
    return json.dumps({"kind": kind, "value": value})


def test_what_is_said_there_is_told_kept_and_handed_on(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "artifacts" / "gate-1.partial.jsonl"
    request = request_of(tmp_path, {"bench": {"path": PREDICT}}, progress_path=path)
    heard = Heard(request, said.append)
    heard.take(
        [line("tell", "half way"), line("rounds", "a\n"), "a warning", line("rounds", "b\n")]
    )
    assert (said, path.read_text(), heard.report) == (["half way"], "a\nb\n", None)
    assert heard.other == ["a warning"]
    heard.take([line("report", {"outcome": "pass"})])
    assert heard.report == {"outcome": "pass"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("TargetUnreachable", TargetUnreachable), ("ConfigError", ConfigError),
     ("OpsctlError", GateUndecided)],
)  # fmt: skip
def test_what_is_raised_there_is_raised_here(
    tmp_path: Path, name: str, kind: type[Exception]
) -> None:
    heard = Heard(request_of(tmp_path, {"bench": {"path": PREDICT}}), print)
    error = {"type": name, "exit_code": 1, "what": "it broke", "why": "so", "next_step": "Mend it"}
    with pytest.raises(kind, match=r"it broke: so\. Mend it"):
        heard.take([line("error", error)])


@contextmanager
def server() -> Iterator[int]:
    """The port of one that answers every POST."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            return None

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield made.server_port
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def test_the_program_measures_and_says_what_it_found(tmp_path: Path) -> None:
    bench = {"path": "/x", "body": {}, "rate_per_s": 50, "warmup_s": 0, "warmup_requests": 1}
    gate = {"budget_s": 2, "min_pairs": 10, "max_lag_percent": 100000}
    with server() as port:
        arm = Endpoint("127.0.0.1", port, name="r1-1")
        path = tmp_path / "rounds.jsonl"
        request = request_of(
            tmp_path, {"bench": bench, "gate": gate},
            baseline=None, candidate=arm, progress_path=path,
        )  # fmt: skip
        folder = written(request, tmp_path / "there")
        done = shell.run([sys.executable, "-m", "opsctl.bench.remote", str(folder)], timeout_s=120)
    assert done.exit_code == 0, done.stderr
    said: list[str] = []
    heard = Heard(request, said.append)
    heard.take(done.stdout.splitlines())
    assert heard.report is not None
    assert heard.report["kind"] == "gate"
    assert said[0].startswith("benchmark against absolute limits only, at most 2 s")
    assert said[-1].startswith(f"gate: {heard.report['outcome']}: ")
    # A head, then a line a round.
    assert len(path.read_text().splitlines()) == 1 + heard.report["rounds"]
