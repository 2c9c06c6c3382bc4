"""Deploys in a row, good and bad candidates by turns, while a client watches the front door.

Right is: no failed request, the exit code that the candidate deserves, and afterwards the release
that must serve serves, by status and by the front door's own header.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.campaigns._opsctl import Opsctl, Result
from tests.apps.processes import ClientRun, start_client
from tests.apps.project import BAD, GOOD, Candidate, Options, ServiceProject, write

RUNS = 100
RATE_PER_S = 200.0
BEFORE_S = 0.3
AFTER_S = 0.3
"""The client watches that much longer than the command runs."""

TRIAL_MAY_SERVE = ("dies",)
"""Bad candidates that may reach a canary before they show what they are."""

FAILED_MAX = 5
"""Enough to see a pattern; more would only take time."""


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A first deploy, then one for each index."""
    project = write(workdir / "project", Options())
    plan = {index: choose(seed, index) for index in indexes}
    return run_chain(Opsctl(project), seed, plan, emit)


def front_door(project: ServiceProject) -> list[ClientRun]:
    """One client where users ask."""
    return [start_client(project, project.root, rate=RATE_PER_S)]


def run_chain(
    opsctl: Opsctl,
    seed: int,
    plan: Mapping[int, Candidate],
    emit: Callable[[dict[str, Any]], None],
    watch: Callable[[ServiceProject], list[ClientRun]] = front_door,
) -> dict[str, Any]:
    """A first deploy, then each candidate of the plan, while the clients of `watch` ask."""
    failed = 0
    try:
        first = opsctl.run("deploy")
        if first.exit_code != 0:
            return {"ok": False, "why": f"first deploy: {first.exit_code} {first.stderr[-1500:]}"}
        serving = str(first.data["serving_release"])
        for index, candidate in plan.items():
            record = run_next(opsctl, f"{seed}-{index}", candidate, serving, watch)
            emit({"index": index, **record})
            failed += not record["ok"]
            if failed >= FAILED_MAX:
                break
            serving = record["serving"]
    finally:
        left = opsctl.down()
    return {"ok": not left and not failed, "orphans": left}


def choose(seed: int, index: int) -> Candidate:
    """The candidate of a run: good ones at even indexes, bad ones at odd."""
    numbers = random.Random(f"{seed}:{index}")
    return numbers.choice(GOOD if index % 2 == 0 else BAD)


def run_next(
    opsctl: Opsctl,
    serial: str,
    candidate: Candidate,
    serving: str,
    watch: Callable[[ServiceProject], list[ClientRun]] = front_door,
) -> dict[str, Any]:
    """One deploy under load, judged."""
    project = opsctl.project
    project.change(candidate, serial)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client) for client in watch(project)]
        time.sleep(BEFORE_S)
        result = opsctl.run("deploy")
        time.sleep(AFTER_S)
        all_seen = [client.stop() for client in clients]
    wrong = [w for seen in all_seen for w in judge(candidate, result, seen, serving)]
    serves = opsctl.status()["serving_release"]
    wanted = str(result.data.get("release")) if candidate.good else serving
    if serves != wanted:
        wrong.append(f"{serves} serves instead of {wanted}")
    return {
        "kind": candidate.kind,
        "exit_code": result.exit_code,
        "serving": serves,
        "sent": sum(seen["sent"] for seen in all_seen),
        "failed_requests": sum(seen["failed"] for seen in all_seen),
        "failures": [failure for seen in all_seen for failure in seen["failures"][:5]],
        "p99_ms": max(seen["latency_ms"]["p99"] or 0 for seen in all_seen),
        "client_lag_ms_max": max(seen["lag_ms_max"] for seen in all_seen),
        "seconds": round(result.seconds, 3),
        "journal_ms": result.data.get("journal_ms"),
        "reason": result.data.get("reason", ""),
        "ok": not wrong,
        "why": "; ".join(wrong),
        **({"stderr": result.stderr[-3000:]} if wrong else {}),
    }


def judge(candidate: Candidate, result: Result, seen: dict[str, Any], serving: str) -> list[str]:
    """What is wrong with one deploy."""
    wrong = []
    if result.exit_code != candidate.exit_code:
        wrong.append(f"exit code {result.exit_code} instead of {candidate.exit_code}")
    if seen["failed"]:
        kinds = sorted({failure["kind"] for failure in seen["failures"]})
        wrong.append(f"{seen['failed']} failed requests ({', '.join(kinds)})")
    if result.data.get("serving_release") is None:
        wrong.append("the result names no serving release")
    others = set(seen["releases"]) - {serving, ""}
    if not candidate.good and others and candidate.kind not in TRIAL_MAY_SERVE:
        wrong.append(f"users met {', '.join(sorted(others))}")
    if candidate.good and str(result.data.get("release")) not in others:
        wrong.append("no user met the new release")
    return wrong


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of the whole."""
    return {
        "deploys": len(records),
        "good": sum(record["exit_code"] == 0 for record in records),
        "requests": sum(record["sent"] for record in records),
        "failed_requests": sum(record["failed_requests"] for record in records),
        "deploy_s_median": sorted(record["seconds"] for record in records)[len(records) // 2],
        "p99_ms_max": max(record["p99_ms"] or 0 for record in records),
    }
