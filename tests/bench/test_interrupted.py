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

import pytest

from tests.bench.server import ROOT, Served, running
from tests.bench.test_run import EQUAL, SHORT, StopNow, gated, request

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

    with running(EQUAL) as old, running(EQUAL) as new:
        for gates in range(3):
            asked = request(old, new, gate=endless, progress=progress)
            with pytest.raises(StopNow):
                gated(asked, interrupt=partial(stop_soon, gates))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "gate-1.partial.1.jsonl", "gate-1.partial.2.jsonl", "gate-1.partial.jsonl",
    ]  # fmt: skip
    assert all(len(rounds_of(tmp_path / name)) >= 20 for name in names)
