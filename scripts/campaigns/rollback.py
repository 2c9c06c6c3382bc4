"""`opsctl rollback` under load: how long the release that is rolled back still answers.

Warm (the old release still runs): at most 1 s from the start of the command to the sending of the
last request that the bad release answers, keep-alive connections included. Cold (the old release
has to be started): at most the service's own start time and 2 s more. No request fails.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns._opsctl import Opsctl
from tests.apps.processes import get, start_client, start_light, wait_until
from tests.apps.project import Candidate, LightProject, Options, free_port, write

RUNS = 40
RATE_PER_S = 200.0
WARM_MAX_S = 1.0
COLD_EXTRA_MAX_S = 2.0
WARM_WINDOW_S = 600
WATCH_S = 0.5


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where releases are rolled back: the command for a project, and a cold start by hand."""

    chain: LightProject
    command: Callable[[LightProject], Opsctl]
    start_s: Callable[[LightProject], float]
    """How long the service takes from its start to readiness, without opsctl."""


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Deploy and roll back again and again: warm at even indexes, cold at odd ones."""
    chain = write(workdir / "project", Options(gate=False))
    return run_chain(Bench(chain, Opsctl, service_start_s), seed, indexes, emit)


def run_chain(
    bench: Bench, seed: int, indexes: Sequence[int], emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A first deploy, then the rollbacks."""
    opsctl = bench.command(bench.chain)
    bad = 0
    try:
        deploy(opsctl)
        for index in indexes:
            record = run_next(bench, seed, index)
            emit(record)
            bad += not record["ok"]
    finally:
        left = opsctl.down()
    return {"ok": not left and not bad, "orphans": left}


def run_next(bench: Bench, seed: int, index: int) -> dict[str, Any]:
    """One deploy and its rollback."""
    warm = index % 2 == 0
    project = with_window(bench.chain, WARM_WINDOW_S if warm else 0)
    opsctl = bench.command(project)
    old = opsctl.status()["serving_release"]
    project.change(Candidate("code"), f"{seed}-{index}")
    bad = deploy(opsctl)
    start_s = 0.0 if warm else bench.start_s(project)
    limit_s = WARM_MAX_S if warm else start_s + COLD_EXTRA_MAX_S
    record = roll_back(opsctl, bad, old, limit_s)
    return {"index": index, "kind": "warm" if warm else "cold", **record}


def roll_back(opsctl: Opsctl, bad: str, old: str, limit_s: float) -> dict[str, Any]:
    """A rollback from `bad` to `old` under load, judged."""
    project = opsctl.project
    with start_client(project, project.root, rate=RATE_PER_S) as client:
        time.sleep(WATCH_S)
        result = opsctl.run("rollback")
        time.sleep(WATCH_S)
        seen = client.stop()
    took_s = seen["releases"][bad]["last_sent"] - result.began
    wrong = []
    if result.exit_code != 0:
        wrong.append(f"rollback ended with {result.exit_code}: {result.stderr[-500:]}")
    if seen["failed"]:
        wrong.append(f"{seen['failed']} failed requests")
    if opsctl.status()["serving_release"] != old:
        wrong.append(f"{opsctl.status()['serving_release']} serves instead of {old}")
    return {
        "took_s": round(took_s, 3),
        "limit_s": round(limit_s, 3),
        "in_time": took_s <= limit_s,
        "command_s": round(result.seconds, 3),
        "seconds": round(result.seconds, 3),
        "sent": seen["sent"],
        "failed_requests": seen["failed"],
        "ok": not wrong,
        "why": "; ".join(wrong),
    }


def with_window(project: LightProject, window_s: int) -> LightProject:
    """The same project with another rollback window."""
    overrides = {**project.options.overrides, "strategy": {"rollback_window_s": window_s}}
    options = dataclasses.replace(project.options, overrides=overrides)
    return dataclasses.replace(project, options=options)


def deploy(opsctl: Opsctl) -> str:
    """Deploy; the release that serves then. Raises RuntimeError when it fails."""
    result = opsctl.run("deploy")
    if result.exit_code != 0:
        raise RuntimeError(f"deploy ended with {result.exit_code}: {result.stderr}")
    return str(result.data["serving_release"])


def service_start_s(project: LightProject) -> float:
    """How long the service takes from its start to readiness, by hand, without opsctl."""
    ports = free_port(), free_port()
    began = time.monotonic()
    with start_light(project, ports):
        wait_until(lambda: get(ports[1], "/health/ready") == 200, "the service was ready")
        return time.monotonic() - began


def summarise(
    records: Sequence[dict[str, Any]], kinds: Sequence[str] = ("warm", "cold")
) -> dict[str, Any]:
    """Median and worst of each kind; not ok with a rollback that took too long."""
    late = [record["index"] for record in records if not record["in_time"]]
    figures: dict[str, Any] = {
        "failed_requests": sum(r["failed_requests"] for r in records),
        "too_slow": late,
        "ok": not late,
    }
    for kind in kinds:
        times = sorted(record["took_s"] for record in records if record["kind"] == kind)
        if times:
            figures[f"{kind}_s_median"] = times[len(times) // 2]
            figures[f"{kind}_s_max"] = times[-1]
    return figures
