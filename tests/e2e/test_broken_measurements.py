"""Measurements that are killed, starved or left alone by their service: nothing is decided from
them, what was measured is kept, and the commands that find it say so."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.processes import wait_until
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Began, Site, quick

pytestmark = pytest.mark.long

START_MAX_S = 120.0
"""On a machine that is very busy, and where another gate may have to end first."""

STRICT = {"max_lag_percent": 10}
"""A hundredth of what the light service's gate allows: a client that is held up shows."""


def lines_in(partial: Path) -> int:
    return partial.read_text().count("\n") if partial.exists() else 0


def begin_measuring(site: Site, release: str = "r1") -> tuple[Began, Path]:
    """`opsctl bench run`, and its partial file once some requests are in it."""
    began = site.begin("bench", "run")
    folder = site.state / "benchmarks" / release

    def measures() -> bool:
        return any(lines_in(path) > 20 for path in folder.glob("*.partial.jsonl"))

    wait_until(measures, "it measures", START_MAX_S)
    return began, max(folder.glob("*.partial.jsonl"))


@contextmanager
def repeated(action: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Do something again and again for the length of a block."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(pause_s):
            action()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def starve(began: Began) -> Callable[[], None]:
    """Lets the command stand still for a twentieth of a second."""

    def pause() -> None:
        with contextlib.suppress(ProcessLookupError):
            began.process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            began.process.send_signal(signal.SIGCONT)

    return pause


def end_replicas(site: Site, release: str, spared: set[int]) -> Callable[[], None]:
    """Kills every process of a release, less some."""

    def kill() -> None:
        for pid, command in site.processes().items():
            if f"--release {release} " in f"{command} " and pid not in spared:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    return kill


def the_report(site: Site, release: str = "r1") -> dict[str, Any]:
    (path,) = (site.state / "benchmarks" / release).glob("*.json")
    return dict(json.loads(path.read_text()))


def test_a_killed_measurement_leaves_its_requests_and_compares_with_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(gate=False))
    site.good("deploy")
    began, partial = begin_measuring(site)
    began.kill()
    kept = partial.read_text()
    count = kept.count("\n") - 1
    assert list(partial.parent.glob("*.json")) == [], "no figures from half of a measurement"
    alone = site.run("bench", "compare", "r1", "r1")
    assert (alone.exit_code, alone.data["error"]["what"]) == (2, "there is no measurement of r1")
    told = f"{partial} is of an interrupted measurement ({count} requests)"
    assert alone.data["error"]["why"] == told
    named = site.run("bench", "compare", str(partial), str(partial))
    assert named.exit_code == 2
    assert named.data["error"]["what"] == f"{partial} is no measurement to compare with"
    assert named.data["error"]["why"] == told
    site.good("bench", "run")
    assert told in site.good("bench", "compare", "r1", "r1").data["cautions"]
    assert partial.read_text() == kept
    assert list(partial.parent.glob("*.partial*")) == [partial], "a finished one leaves none"


def test_a_measurement_whose_service_goes_away_is_kept_and_compares_with_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(gate=False))
    site.good("deploy")
    began, _ = begin_measuring(site)
    with repeated(end_replicas(site, "r1", set()), 0.1):
        assert began.end() == 15, began.output
    report = the_report(site)
    assert report["outcome"] in ("inconclusive", "no_data")
    figures = report["batch_sizes"]["1"]["candidate"]
    assert 0 < figures["errors"] <= figures["requests"]
    refused = site.run("bench", "compare", "r1", "r1")
    assert (refused.exit_code, refused.data["error"]["why"]) == (15, report["reason"])
    trend = site.good("bench", "trend").data["runs"]
    assert (trend["reports"], trend["broken"]) == (0, 1)


def test_a_measurement_whose_client_is_starved_is_kept_and_compares_with_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(gate=False))
    site.with_options(gate={"enabled": False, **STRICT})
    site.good("deploy")
    began, _ = begin_measuring(site)
    with repeated(starve(began), 0.05):
        assert began.end() == 15, began.output
    report = the_report(site)
    assert (report["outcome"], report["reason_kind"]) == ("inconclusive", "environment")
    assert "rounds late" in report["reason"]
    assert site.run("bench", "compare", "r1", "r1").exit_code == 15


def begin_gate(site: Site) -> tuple[Began, Path]:
    """A deploy, and the folder of its gate once some rounds are measured."""
    began = site.begin_deploy()
    artifacts = site.state / "reports" / "0002"
    partial = artifacts / "gate-1.partial.jsonl"
    wait_until(lambda: lines_in(partial) > 20, "the gate measures", START_MAX_S)
    return began, artifacts


def rolled_back(site: Site, began: Began, artifacts: Path) -> dict[str, Any]:
    """The report of a gate that decided nothing, after the deploy's end."""
    assert began.end() == 10, began.output
    assert began.data["serving_release"] == site.serving == "r1"
    gate = dict(json.loads((artifacts / "gate-1.json").read_text()))
    assert gate["reason"] in began.data["reason"]
    assert lines_in(artifacts / "gate-1.partial.jsonl") > 20
    return gate


def test_a_deploy_whose_client_is_starved_in_the_gate_decides_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick())
    site.good("deploy")
    # Long enough that most of it is still to come when the starving begins.
    site.with_options(gate={"enabled": True, "budget_s": 12, "min_pairs": 1000, **STRICT})
    began, artifacts = begin_gate(site)
    with repeated(starve(began), 0.05):
        gate = rolled_back(site, began, artifacts)
    assert (gate["outcome"], gate["reason_kind"]) == ("inconclusive", "environment")
    assert "rounds late" in gate["reason"]


def test_a_deploy_whose_baseline_goes_away_in_the_gate_decides_nothing(
    make_site: MakeSite,
) -> None:
    site = make_site(quick())
    site.good("deploy")
    serving = set(site.pids("r1").values())
    site.with_options(gate={"enabled": True, "budget_s": 12, "min_pairs": 1000})
    began, artifacts = begin_gate(site)
    with site.users(rate=20), repeated(end_replicas(site, "r1", serving), 0.1):
        gate = rolled_back(site, began, artifacts)
    assert gate["outcome"] in ("inconclusive", "no_data")
    assert gate["reason_kind"] in ("environment", "no_answer")
    assert set(site.pids("r1").values()) == serving
