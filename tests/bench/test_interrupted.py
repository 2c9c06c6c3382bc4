"""Gates whose arms, client or machine fail in the middle: nothing is decided from broken data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from opsctl import bench
from opsctl.bench.single import precision_percent
from opsctl.errors import GateUndecided
from tests.bench.server import ROOT, Served, running
from tests.bench.test_run import EQUAL, LOAD, PATIENT, SHORT, StopNow, gated, never, request, silent

LONG = replace(SHORT, min_pairs=600, budget_s=60.0)
"""Long enough that the middle is well before the verdict."""


def ended_in_the_middle(progress: Path, *victims: Served) -> Callable[[], None]:
    """An interrupt that kills servers once some rounds are measured."""
    left = list(victims)

    def interrupt() -> None:
        if left and progress.exists() and progress.read_text().count("\n") > 100:
            for served in left:
                served.process.kill()
                served.process.wait()
            left.clear()

    return interrupt


def rounds_of(progress: Path) -> list[list[object]]:
    return [json.loads(line)[2] for line in progress.read_text().splitlines()[1:]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("dead", "outcome", "kind"),
    [
        (("old",), "inconclusive", "environment"),
        (("new",), "fail", None),
        (("old", "new"), "inconclusive", "environment"),
    ],
)
def test_arms_that_die_in_the_middle_never_pass_and_what_was_measured_is_kept(
    tmp_path: Path, dead: tuple[str, ...], outcome: str, kind: str | None
) -> None:
    progress = tmp_path / "gate.partial.jsonl"
    with running(EQUAL) as old, running(EQUAL) as new:
        arms = {"old": old, "new": new}
        report = gated(
            request(old, new, gate=LONG, progress=progress),
            interrupt=ended_in_the_middle(progress, *(arms[name] for name in dead)),
        )
    assert report.outcome == outcome
    if kind:
        assert report.reason_kind == kind
        assert report.reason.startswith("the baseline itself failed")
    rounds = rounds_of(progress)
    whole = [values for values in rounds if all(isinstance(v, float) for v in values)]
    assert len(whole) >= 90 and len(rounds) > len(whole), "good rounds, then broken ones"


def one_arm(served: Served, progress: Path) -> bench.BenchRequest:
    return bench.BenchRequest(
        served.endpoint, LOAD, progress.parent, 1, 4.0, gate=PATIENT, progress_path=progress
    )


@pytest.mark.long
def test_figures_of_a_server_that_dies_in_the_middle_are_marked_as_worth_nothing(
    tmp_path: Path,
) -> None:
    progress = tmp_path / "1.partial.jsonl"
    with running(EQUAL) as served:
        report = bench.measure(
            one_arm(served, progress),
            tell=silent,
            interrupt=ended_in_the_middle(progress, served),
        ).to_dict()
    assert (report["outcome"], report["reason_kind"]) == ("inconclusive", "environment")
    figures = report["batch_sizes"]["1"]["candidate"]
    assert report["reason"].startswith(
        f"the release failed {figures['errors']} of {figures['requests']} requests (c"
    )
    assert len(rounds_of(progress)) == figures["requests"]
    with pytest.raises(GateUndecided, match="the first measurement can't be compared"):
        bench.compare(report, report)


def test_nothing_is_measured_of_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with running(EQUAL) as served:
        gone = served
    asked = replace(one_arm(gone, tmp_path / "1.partial.jsonl"), seconds_a_size=0.3)
    report = bench.measure(asked, tell=silent, interrupt=never).to_dict()
    assert (report["outcome"], report["reason_kind"]) == ("no_data", "no_answer")
    assert report["reason"] == (
        "no request of batch size 1 was answered: cannot connect: ConnectionRefusedError"
    )


def test_what_to_expect_of_a_measurement_is_told_before_it(tmp_path: Path) -> None:
    said: list[str] = []
    with running(EQUAL) as served:
        asked = replace(one_arm(served, tmp_path / "1.partial.jsonl"), seconds_a_size=0.5)
        report = bench.measure(asked, tell=said.append, interrupt=never).to_dict()
    assert said[0] == "benchmark of batch sizes 1: about 2 s after a warm-up of at most 3 s"
    exact = report["planned"]["p50_percent"]["1"]
    assert f"p50 will be known to about ±{exact:.1f} % (95 %)" in said
    assert report["planned"]["requests"] == 75.0


def test_how_exactly_a_median_is_known_agrees_with_samples_of_it() -> None:
    """2,000 medians of 400 log-normal values: 95 % of them lie within the stated width."""
    medians = np.median(np.random.default_rng(5).lognormal(0.0, 0.2, (2000, 400)), axis=1)
    width = 1.0 + precision_percent(0.2, 400) / 100.0
    inside = float(((medians < width) & (medians > 1.0 / width)).mean())
    assert inside == pytest.approx(0.95, abs=0.015)


GATE = """
import json, sys
from pathlib import Path
from opsctl import bench
from opsctl.config import settings
from opsctl.model import Endpoint
ports = [int(port) for port in sys.argv[1:3]]
report = bench.run_gate(
    bench.GateRequest(
        Endpoint("127.0.0.1", ports[0]), Endpoint("127.0.0.1", ports[1]),
        settings.Bench(path="/", body={}, batch_sizes=(1,), warmup_s=0.1, warmup_max_s=1.0),
        settings.Gate(budget_s=8.0, metrics=("p50", "errors"), tolerated_p50_percent=10.0,
                      refused_p50_percent=400.0, refused_error_rate=0.02), Path(), 5,
    ),
    tell=lambda line: None, interrupt=lambda: None,
)
print(json.dumps([report.outcome, report.reason_kind, report.reason]))
"""


@pytest.mark.long
def test_a_client_that_is_starved_of_cpu_decides_nothing() -> None:
    """The whole process stands still for half of the time, as if the machine gave it no CPU."""
    with running(EQUAL) as old, running(EQUAL) as new:
        ports = [str(old.endpoint.port), str(new.endpoint.port)]
        client = subprocess.Popen(
            [sys.executable, "-c", GATE, *ports],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            while client.poll() is None:
                client.send_signal(signal.SIGSTOP)
                time.sleep(0.05)
                client.send_signal(signal.SIGCONT)
                time.sleep(0.05)
            said, _ = client.communicate()
        finally:
            client.kill()
            client.wait()
    outcome, kind, reason = json.loads(said)
    assert (outcome, kind) == ("inconclusive", "environment")
    assert "rounds late" in reason


def test_the_data_of_interrupted_gates_are_all_kept(tmp_path: Path) -> None:
    progress = tmp_path / "gate-1.partial.jsonl"
    endless = replace(SHORT, min_pairs=100_000, budget_s=60.0)

    def stop_soon(gates_before: int) -> None:
        older = len(list(tmp_path.glob("*.partial.?.jsonl")))
        fresh = older == gates_before and progress.exists()
        if fresh and progress.read_text().count("\n") > 20:
            raise StopNow

    said: list[str] = []
    with running(EQUAL) as old, running(EQUAL) as new:
        for gates in range(3):
            asked = request(old, new, gate=endless, progress=progress)
            with pytest.raises(StopNow):
                gated(asked, said.append, partial(stop_soon, gates))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "gate-1.partial.1.jsonl", "gate-1.partial.2.jsonl", "gate-1.partial.jsonl",
    ]  # fmt: skip
    assert all(len(rounds_of(tmp_path / name)) >= 20 for name in names)
    earlier = [line for line in said if "decide nothing" in line]
    assert [line.partition(";")[2] for line in earlier] == [
        f" they are kept in {tmp_path / f'gate-1.partial.{number}.jsonl'}" for number in (1, 2)
    ]
    counts = [int(line.split()[0]) for line in earlier]
    assert counts == [len(rounds_of(tmp_path / name)) for name in names[:2]]
