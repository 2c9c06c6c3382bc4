"""What a service is like at one moment, and whether it ended up as it should."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.campaigns._opsctl import Opsctl, Result
from tests.apps.client import is_right
from tests.apps.processes import post
from tests.apps.project import Candidate, ServiceProject

BUCKET_MARGIN_S = 0.1
"""The client counts in buckets of this length: one at each end is left out."""


@dataclass(frozen=True)
class Moment:
    """Status of the service, and what its journal says of the newest rollout."""

    serving: str | None
    weights: Mapping[str, int]
    """Weight of every release that is meant to run; baselines under `<release>/baseline`."""
    pids: frozenset[int]
    """Replicas, as status names them."""
    converged: bool
    open_rollout: bool
    candidate: str | None
    promoted: bool
    records: int
    """Records of the newest rollout."""


@dataclass(frozen=True)
class Ending:
    """A deploy that was stopped and recovered: everything that a judgement needs."""

    candidate: Candidate
    serial: str
    before: Moment
    stopped: Moment
    """After the stop, before the recovery."""
    after: Moment
    recovery: Result


def look(opsctl: Opsctl) -> Moment:
    """The service now."""
    status = opsctl.status()
    observed = status["observed"] or {}
    records = newest_records(opsctl.project.state / "journal")
    opened = records[0]["data"] if records else {}
    return Moment(
        serving=status["serving_release"],
        weights={
            share["release"] + ("/baseline" if share["role"] == "baseline" else ""): share["weight"]
            for share in status["desired"]["shares"]
        },
        pids=frozenset(replica["pid"] for replica in observed.get("replicas", ())),
        converged=bool(observed.get("converged")) and not observed.get("guarded"),
        open_rollout=bool(records) and records[-1]["kind"] != "closed",
        candidate=opened.get("candidate"),
        promoted=any(
            record["kind"] == "passed" and record["data"]["step"] == "promote" for record in records
        ),
        records=len(records),
    )


def newest_records(journal: Path) -> list[dict[str, Any]]:
    """Lines of the newest journal file that are whole."""
    files = sorted(journal.glob("*.jsonl"))
    records = []
    for line in files[-1].read_bytes().splitlines() if files else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def judge(opsctl: Opsctl, ending: Ending, command: str) -> list[str]:
    """What is wrong with the end state."""
    wrong = judge_recovery(ending, command)
    after = ending.after
    if after.open_rollout:
        wrong.append("the rollout is still open")
    if not after.converged:
        wrong.append("what runs is not what is meant to run")
    if after.weights != ending_weights(ending, command):
        wrong.append(f"weights {after.weights} instead of {ending_weights(ending, command)}")
    if shipped(ending, command) and after.serving:
        serial = opsctl.project.state / "releases" / after.serving / "app" / "serial.txt"
        if serial.read_text().strip() != ending.serial:
            wrong.append(f"{after.serving} is not the content that was deployed")
    wrong += opsctl.wrong_processes(after.pids)
    held = opsctl.run("lock", "status").data.get("outcome")
    if held != "free":
        wrong.append(f"the lock is {held}")
    return wrong + judge_front_door(opsctl.project)


def judge_front_door(project: ServiceProject) -> list[str]:
    """What is wrong with the answer to one request."""
    right = json.loads(project.requests.read_text())[0]
    door = urlsplit(project.url)
    status, answer = post(door.port or 80, door.path, right["body"], door.hostname or "")
    tolerance = right.get("tolerance", 0.0)
    if status == 200 and is_right(answer["predictions"], right["predictions"], tolerance):
        return []
    return [f"the front door answers {status} {answer}"]


def judge_recovery(ending: Ending, command: str) -> list[str]:
    """What is wrong with the recovery's exit code."""
    right = ending.candidate.exit_code
    if command == "resume" and not ending.stopped.open_rollout:
        # Nothing was begun, or all was over: resume makes sure that what served serves.
        right = 0
    code = ending.recovery.exit_code
    return [] if code == right else [f"{command} ended with {code} instead of {right}"]


def shipped(ending: Ending, command: str) -> bool:
    """Whether the new content must serve in the end."""
    if not ending.candidate.good:
        return False
    if command == "deploy" or ending.stopped.open_rollout:
        return True
    return ending.stopped.serving != ending.before.serving


def ending_weights(ending: Ending, command: str) -> dict[str, int]:
    """The weights that a deploy without a kill would have left."""
    old = ending.before.serving
    if not shipped(ending, command):
        return dict(ending.before.weights)
    new = ending.after.serving
    return {str(new): 100, str(old): 0} if new != old else dict(ending.before.weights)


def count_of(seen: Mapping[str, Any], release: str, start: float, end: float) -> int:
    """How many requests `release` answered that were sent between two moments."""
    width = seen["bucket_s"]
    return sum(
        count
        for bucket, count in seen["buckets"].get(release, ())
        if start + BUCKET_MARGIN_S <= bucket * width
        and (bucket + 1) * width <= end - BUCKET_MARGIN_S
    )
