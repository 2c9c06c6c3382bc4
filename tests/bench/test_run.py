"""Whole gates over loopback against real servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from opsctl import bench
from opsctl.bench import machine
from opsctl.config import settings
from opsctl.model import Endpoint
from tests.bench.server import ROOT, Behaviour, Served, running

EQUAL = Behaviour(service_ms=0.5, cpus=(max(os.sched_getaffinity(0)),))
"""Both arms on one CPU, as a deploy pins them: a neighbour then disturbs both alike."""

LOAD = settings.Bench(
    path="/", body={"a": 1}, warmup_s=0.3, warmup_max_s=3.0, rate_per_s=150.0, batch_sizes=(1,)
)
SHORT = settings.Gate(
    budget_s=8.0,
    tolerated_p50_percent=10.0,
    refused_p50_percent=400.0,
    refused_error_rate=0.02,
    metrics=("p50", "errors"),
    max_lag_percent=1000.0,
)
"""Almost the short gate of the simulator; wide, as the machine is busy with other tests."""

PATIENT = replace(SHORT, max_lag_percent=1e6)
"""Takes figures of a client that was held up: for tests that are not about the machine."""


def silent(line: str) -> None:
    """No progress."""


def never() -> None:
    """No interrupt."""


def request(
    baseline: Served | Endpoint | None,
    candidate: Served | Endpoint,
    *,
    load: settings.Bench = LOAD,
    gate: settings.Gate = SHORT,
    progress: Path | None = None,
) -> bench.GateRequest:
    arms = [
        served.endpoint if isinstance(served, Served) else served
        for served in (baseline, candidate)
    ]
    pids = [
        served.process.pid if isinstance(served, Served) else 0 for served in (baseline, candidate)
    ]
    assert arms[1] is not None
    return bench.GateRequest(
        arms[0], arms[1], load, gate, Path(), 5, (), pids[0], pids[1], progress
    )


def gated(
    asked: bench.GateRequest,
    tell: Callable[[str], None] = silent,
    interrupt: Callable[[], None] = never,
) -> bench.GateReport:
    return bench.run_gate(asked, tell=tell, interrupt=interrupt)


def test_a_copy_of_the_baseline_passes_and_the_report_is_complete_json() -> None:
    lines: list[str] = []
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new), tell=lines.append)
    assert (report.outcome, report.reason_kind) == ("pass", "proved")
    stored = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    arms = stored["batch_sizes"]["1"]
    assert set(arms) == {"baseline", "candidate"}
    for figures in arms.values():
        assert 0 < figures["p50_ms"] <= figures["p90_ms"] <= figures["p99_ms"] <= figures["p999_ms"]
        assert figures["errors"] == 0 and figures["requests"] >= SHORT.min_pairs
    metric = stored["metrics"]["p50:1"]
    assert metric["low"] < metric["ratio"] < metric["high"]
    assert metric["over_time"][-1]["ratio"] == metric["ratio"]
    assert stored["seed"] == 5 and stored["gate"]["alpha"] == SHORT.alpha
    assert stored["cpu_percent"]["candidate"]["ran"] > 0
    assert stored["planned"]["pairs_needed"]["p50:1"] > 0
    assert any("+400 % p50 will be seen in about" in line for line in lines)


def test_a_much_slower_candidate_fails_with_the_metric_as_the_reason() -> None:
    with running(EQUAL) as old, running(replace(EQUAL, service_ms=8.0)) as new:
        report = gated(request(old, new))
    assert (report.outcome, report.reason_kind) == ("fail", "regression")
    assert report.reason == "the candidate is worse in p50 of batch size 1"


def test_a_candidate_with_errors_fails_for_them() -> None:
    with running(EQUAL) as old, running(replace(EQUAL, error_rate=0.2)) as new:
        report = gated(request(old, new))
    assert (report.outcome, report.reason_kind) == ("fail", "errors")
    assert report.data["batch_sizes"]["1"]["candidate"]["failures"].keys() == {"HTTP 503"}


@pytest.mark.long
def test_a_dead_candidate_fails_and_a_dead_baseline_is_no_data() -> None:
    with running(EQUAL) as alive, running(EQUAL) as soon_dead:
        dead = soon_dead.endpoint
        soon_dead.process.kill()
        soon_dead.process.wait()
        assert gated(request(alive, dead)).outcome == "fail"
        report = gated(request(dead, alive))
    assert (report.outcome, report.reason_kind) == ("no_data", "no_answer")
    assert report.reason.startswith("the baseline answered no request: cannot connect")


def test_answers_of_neither_arm_are_no_data_with_what_they_answer() -> None:
    broken = replace(EQUAL, error_rate=1.0)
    with running(broken) as old, running(broken) as new:
        report = gated(request(old, new))
    assert (report.outcome, report.reason) == ("no_data", "no request was answered: HTTP 503")


def test_a_baseline_with_errors_of_its_own_decides_nothing() -> None:
    with running(replace(EQUAL, error_rate=0.1)) as old, running(EQUAL) as new:
        report = gated(request(old, new))
    assert (report.outcome, report.reason_kind) == ("inconclusive", "environment")
    assert report.reason.startswith("the baseline itself failed")


def test_a_client_that_is_late_decides_nothing() -> None:
    """The interrupt itself takes the client's time here, as a starved machine would."""
    late = replace(SHORT, max_lag_percent=0.0, budget_s=3.0)
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new, gate=late), interrupt=lambda: time.sleep(0.05))
    assert (report.outcome, report.reason_kind) == ("inconclusive", "environment")
    assert report.data["rounds_late"] > report.data["rounds"] / 3


def test_too_short_a_budget_is_inconclusive_for_want_of_pairs() -> None:
    fine = replace(SHORT, refused_p50_percent=2e-3, tolerated_p50_percent=1e-3, budget_s=2.5)
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new, gate=fine))
    assert (report.outcome, report.reason_kind) == ("inconclusive", "power")
    assert "raise gate.budget_s" in report.reason


def test_a_first_deploy_is_judged_by_absolute_limits_alone() -> None:
    strict = replace(SHORT, max_p99_ms=0.2)
    with running(EQUAL) as new:
        kept = gated(request(None, new, gate=replace(SHORT, max_p99_ms=2000.0)))
        broken = gated(request(None, new, gate=strict))
    assert (kept.outcome, kept.reason_kind) == ("pass", "slo")
    assert set(kept.data["batch_sizes"]["1"]) == {"candidate"}
    assert (broken.outcome, broken.reason_kind) == ("fail", "slo")
    assert "gate.max_p99_ms (0.2 ms)" in broken.reason


def test_absolute_limits_hold_beside_the_comparison() -> None:
    strict = replace(SHORT, max_p99_ms=0.2)
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new, gate=strict))
    assert (report.outcome, report.reason_kind) == ("fail", "slo")


def test_a_second_gate_on_the_machine_waits_for_the_first() -> None:
    lines: list[str] = []
    holder = machine.hold_machine()
    while holder is None:
        time.sleep(0.1)
        holder = machine.hold_machine()
    began = time.monotonic()

    def interrupt() -> None:
        if time.monotonic() - began > 0.5:
            holder.close()

    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(request(old, new), tell=lines.append, interrupt=interrupt)
    assert lines[0] == "another gate runs on this machine: waiting for its end"
    assert report.outcome == "pass"


class StopNow(Exception):
    """What an interrupt raises."""


def test_an_interrupted_gate_raises_at_once_and_leaves_its_rounds(tmp_path: Path) -> None:
    progress = tmp_path / "gate" / "partial.jsonl"
    slow = replace(SHORT, min_pairs=100_000, budget_s=60.0)
    stop_at: list[float] = []

    def interrupt() -> None:
        now = time.monotonic()
        if progress.exists() and not stop_at:
            stop_at.append(now + 2.0)
        if stop_at and now > stop_at[0]:
            raise StopNow

    with running(EQUAL) as old, running(EQUAL) as new:
        with pytest.raises(StopNow):
            gated(request(old, new, gate=slow, progress=progress), interrupt=interrupt)
        assert time.monotonic() - stop_at[0] < 30  # the budget is 60 s
    head, *rounds = [json.loads(line) for line in progress.read_text().splitlines()]
    assert head == {"format": 1, "kind": "gate_partial", "seed": 5}
    assert len(rounds) >= 100
    assert all(size == 1 and len(values) == 2 for _, size, values in rounds)


KILLED = """
import sys
from pathlib import Path
from opsctl import bench
from opsctl.config import settings
from opsctl.model import Endpoint
ports = [int(port) for port in sys.argv[1:3]]
bench.run_gate(
    bench.GateRequest(
        Endpoint("127.0.0.1", ports[0]), Endpoint("127.0.0.1", ports[1]),
        settings.Bench(path="/", body={}, batch_sizes=(1,), warmup_s=0.1, warmup_max_s=1.0),
        settings.Gate(min_pairs=100000), Path(), 5, progress_path=Path(sys.argv[3]),
    ),
    tell=print, interrupt=lambda: None,
)
"""


def test_a_killed_gate_leaves_whole_lines_and_frees_the_machine(tmp_path: Path) -> None:
    progress = tmp_path / "partial.jsonl"
    with running(EQUAL) as old, running(EQUAL) as new:
        ports = [str(old.endpoint.port), str(new.endpoint.port)]
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, *ports, str(progress)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        deadline = time.monotonic() + 60.0
        while not (progress.exists() and progress.read_text().count("\n") > 100):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert gated(request(old, new)).outcome == "pass"
    rounds = [json.loads(line) for line in progress.read_text().splitlines()[1:]]
    assert len(rounds) > 100


def test_four_batch_sizes_share_one_stream_and_all_are_judged(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text("\n".join(str(n) for n in range(50)))
    load = replace(
        LOAD, body=None, requests_file="requests.jsonl", batch_sizes=(1, 4, 16, 32), rate_per_s=300
    )
    gate = replace(SHORT, budget_s=20.0)
    with running(EQUAL) as old, running(EQUAL) as new:
        report = gated(replace(request(old, new, load=load, gate=gate), root=tmp_path))
    assert report.outcome == "pass", report.reason
    assert list(report.data["batch_sizes"]) == ["1", "4", "16", "32"]
    assert set(report.data["metrics"]) == {
        "p50:1", "p50:4", "p50:16", "p50:32", "errors",
    }  # fmt: skip


@pytest.mark.long
def test_a_candidate_that_can_answer_less_fails_for_its_throughput() -> None:
    gate = replace(SHORT, metrics=("throughput", "errors"), budget_s=240.0)
    with running(EQUAL) as old, running(replace(EQUAL, service_ms=2.0)) as new:
        report = gated(request(old, new, gate=gate))
    assert (report.outcome, report.reason_kind) == ("fail", "regression")
    assert report.reason == "the candidate is worse in throughput"
    rates = report.data["throughput"]
    assert rates["candidate"]["instances_per_s"] < rates["baseline"]["instances_per_s"]
    assert len(rates["candidate"]["slices"]) == len(rates["baseline"]["slices"]) >= 4


@pytest.mark.long
def test_a_benchmark_of_one_arm_reports_latency_and_capacity_of_each_batch_size(
    tmp_path: Path,
) -> None:
    (tmp_path / "requests.jsonl").write_text("\n".join(str(n) for n in range(50)))
    load = replace(LOAD, body=None, requests_file="requests.jsonl", batch_sizes=(1, 16))
    with running(EQUAL) as served:
        asked = bench.BenchRequest(
            served.endpoint, load, tmp_path, seed=1, seconds_a_size=1.0, release="r3", gate=PATIENT
        )
        reports = [bench.measure(asked, tell=silent, interrupt=never).to_dict() for _ in range(2)]
    figures = reports[0]["batch_sizes"]["16"]
    assert reports[0]["release"] == "r3"
    assert figures["candidate"]["errors"] == 0
    capacity = figures["capacity"]
    assert capacity["instances_per_s"] == 16 * capacity["requests_per_s"] > 0
    assert capacity["requests_per_s"] <= 2100, "0.5 ms of CPU a request allows no more"
    compared = bench.compare(*json.loads(json.dumps(reports)))
    assert [change.metric for change in compared.changes] == ["p50", "p90", "p99"] * 2
    assert len(compared.cautions) == 1
