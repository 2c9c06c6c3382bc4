"""Kill `opsctl deploy` around each journal record and at random instants, then recover.

Recovery is `resume` or another `deploy`. Right is, however the kill fell: the end state that the
deploy has without a kill, no failed request, no process and no lock left over, and no user traffic
on an unproved candidate later than 5 s after the kill. SIGINT and SIGTERM end with 130 and 143,
with the candidate off traffic. After a machine restart (every process gone) `resume` brings back
what served.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.campaigns._endings import Ending, count_of, judge, look
from scripts.campaigns._opsctl import COMMAND_MAX_S, Opsctl, processes_of
from tests.apps.processes import start_client
from tests.apps.project import CANDIDATES, Candidate, Options, write

RECORDS_GOOD = 18
"""Records that a deploy of a good light candidate writes."""

RECORDS_BAD = 26
"""A deploy that fails late and is undone writes at most this many."""

RANDOM_KILLS = 300
RESTARTS = 10
DEPLOY_S = 9.0
"""Random instants lie within the time that a deploy takes."""

RATE_PER_S = 200.0
GUARD_S = 5.0
"""The guard has to have an unproved candidate off traffic that long after the kill."""

PAUSES_S = (0.0, 0.5, 6.5)
"""Kill to recovery; the last one leaves the guard alone for long enough to judge it."""

SIGNALS = ("KILL", "INT", "TERM")
SIGNAL_EXITS = {"INT": (130, -signal.SIGINT), "TERM": (143, -signal.SIGTERM)}
"""By opsctl's own handler, or by the kernel where it comes before the handler is set."""

GATE_S = 2


@dataclass(frozen=True)
class Kill:
    """Where one deploy is stopped, and how it is recovered."""

    point: str
    """`before:N` or `after:N` (a record of the journal), `instant` or `restart`."""
    signal: str
    at_s: float
    kind: str
    recovery: str
    pause_s: float

    @property
    def label(self) -> str:
        """One line for people."""
        where = self.point if ":" in self.point else f"{self.point} {self.at_s:.2f} s"
        return f"{self.kind} SIG{self.signal} {where}, {self.recovery} after {self.pause_s} s"


def points() -> list[tuple[str, str, str]]:
    """Every (point, signal, good or bad or any candidate) of a whole campaign."""
    records = [
        (f"{side}:{number}", name, quality)
        for name in SIGNALS
        for side in ("before", "after")
        for quality, most in (("good", RECORDS_GOOD), ("bad", RECORDS_BAD))
        for number in range(1, most + 1)
    ]
    instants = [
        ("instant", SIGNALS[n % 3] if n % 2 else "KILL", "any") for n in range(RANDOM_KILLS)
    ]
    return records + instants + [("restart", "KILL", "any")] * RESTARTS


RUNS = len(points())


@dataclass(frozen=True)
class Range:
    """What a campaign of kills chooses from."""

    kinds: tuple[str, ...]
    good: str
    bad: tuple[str, ...]
    deploy_s: float


LIGHT = Range(
    ("code", "code", "model", "wrong_value", "exits_at_start", "dies"),
    "code",
    ("wrong_value", "dies"),
    DEPLOY_S,
)


def choose(seed: int, index: int, range_: Range = LIGHT) -> Kill:
    """The kill of a run. The seed shuffles all points, so that any part of them is a sample."""
    order = list(range(RUNS))
    random.Random(seed).shuffle(order)
    point, name, quality = points()[order[index % RUNS]]
    numbers = random.Random(f"{seed}:{index}")
    choices = {"any": range_.kinds, "good": (range_.good,), "bad": range_.bad}
    kind = numbers.choice(choices[quality])
    return Kill(
        point,
        name,
        numbers.uniform(0.0, range_.deploy_s),
        kind,
        "resume" if point == "restart" or numbers.random() < 0.5 else "deploy",
        numbers.choice(PAUSES_S),
    )


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Kill deploys of the light service."""
    kills = {index: choose(seed, index) for index in indexes}
    return run_chain(Chain(begin, CANDIDATES, workdir, seed), kills, emit)


@dataclass(frozen=True)
class Chain:
    """Deploys in a row of one project, begun anew by `begin` when that is needed."""

    begin: Callable[[Path], Opsctl]
    candidates: Mapping[str, Candidate]
    workdir: Path
    seed: int


def run_chain(
    chain: Chain, kills: Mapping[int, Kill], emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """One kill after the other in one project; in a new one after a run that is not ok."""
    opsctl: Opsctl | None = None
    bad = 0
    try:
        for index, kill in kills.items():
            if opsctl is None:
                opsctl = chain.begin(chain.workdir / f"from-{index}")
            candidate = chain.candidates[kill.kind]
            record = run_next(opsctl, f"{chain.seed}-{index}", kill, candidate)
            emit({"index": index, **record})
            if not record["ok"]:
                bad += 1
                opsctl.down()
                opsctl = None
    finally:
        left = opsctl.down() if opsctl else []
    return {"ok": not left and not bad, "orphans": left}


def begin(folder: Path) -> Opsctl:
    """A light service whose first release serves."""
    options = Options(overrides={"gate": {"budget_s": GATE_S, "min_pairs": 30}})
    return deploy_first(Opsctl(write(folder, options)))


def deploy_first(opsctl: Opsctl) -> Opsctl:
    """Deploy the first release. Raises RuntimeError when that fails."""
    first = opsctl.run("deploy")
    if first.exit_code != 0:
        opsctl.down()
        raise RuntimeError(f"the first deploy ended with {first.exit_code}: {first.stderr}")
    return opsctl


def run_next(opsctl: Opsctl, serial: str, kill: Kill, candidate: Candidate) -> dict[str, Any]:
    """One kill and its recovery, judged."""
    project = opsctl.project
    before = look(opsctl)
    project.change(candidate, serial)
    began = time.monotonic()
    client = None if kill.point == "restart" else start_client(project, project.root)
    try:
        exit_code, killed = stop_deploy(opsctl, kill, serial)
        if kill.point == "restart":
            end_everything(project.root)
        time.sleep(kill.pause_s)
        open_before = look(opsctl)
        recovery = opsctl.recoverer(serial).run(kill.recovery)
        time.sleep(0.3)
        seen = client.stop() if client else None
    finally:
        if client:
            client.__exit__(None, None, None)
    ending = Ending(candidate, serial, before, open_before, look(opsctl), recovery)
    wrong = judge(opsctl, ending, kill.recovery)
    wrong += judge_exit(kill, candidate, exit_code)
    if seen:
        wrong += judge_traffic(kill, seen, ending, killed)
    return {
        "kind": kill.label,
        "exit_code": exit_code,
        "recovery_exit_code": recovery.exit_code,
        "records": open_before.records,
        "sent": seen["sent"] if seen else 0,
        "failed_requests": seen["failed"] if seen else 0,
        "failures": seen["failures"][:5] if seen else [],
        "recovery_s": round(recovery.seconds, 3),
        "seconds": round(time.monotonic() - began, 3),
        "ok": not wrong,
        "why": "; ".join(wrong),
        **({"stderr": recovery.stderr[-3000:]} if wrong else {}),
    }


def stop_deploy(opsctl: Opsctl, kill: Kill, serial: str) -> tuple[int, float]:
    """Deploy, and stop it where the kill says; (exit code, when it was over in unix seconds)."""
    log = opsctl.project.root / f"deploy-{serial}.log"
    if ":" in kill.point:
        process = opsctl.spawn(log, "deploy", OPSCTL_KILL_AT=f"{kill.point}:{kill.signal}")
    else:
        process = opsctl.spawn(log, "deploy")
        deadline = time.monotonic() + kill.at_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.Signals[f"SIG{kill.signal}"])
    try:
        code = process.wait(COMMAND_MAX_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return code, time.time()


def end_everything(folder: Path) -> None:
    """What a machine restart does to the service: no process is left, and none says goodbye."""
    # Twice, as the keeper of a process may have started it again in between.
    for _ in range(20):
        running = processes_of(folder)
        if not running:
            return
        for pid in running:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
    raise RuntimeError(f"these do not end: {running}")


def judge_exit(kill: Kill, candidate: Candidate, exit_code: int) -> list[str]:
    """What is wrong with how the stopped command ended."""
    # The deploy may have been over before the signal came.
    right: tuple[int, ...] = (candidate.exit_code,)
    right += (-signal.SIGKILL,) if kill.signal == "KILL" else SIGNAL_EXITS[kill.signal]
    return [] if exit_code in right else [f"the stopped deploy ended with {exit_code}"]


def judge_traffic(kill: Kill, seen: dict[str, Any], ending: Ending, killed: float) -> list[str]:
    """What is wrong with what users saw."""
    wrong = []
    if seen["failed"]:
        kinds = sorted({failure["kind"] for failure in seen["failures"]})
        wrong.append(f"{seen['failed']} failed requests ({', '.join(kinds)})")
    # SIGINT and SIGTERM are handled before the exit; after SIGKILL the guard has its time.
    since = killed + (GUARD_S if kill.signal == "KILL" else 0.3)
    release = ending.stopped.candidate
    if release and not ending.stopped.promoted and release not in ending.before.weights:
        late = count_of(seen, release, since, ending.recovery.began)
        if late:
            wrong.append(f"{late} requests met {release} after it should have been off traffic")
    return wrong


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of the whole."""
    times = sorted(record["recovery_s"] for record in records)
    return {
        "stopped_by_kill": sum(record["exit_code"] == -signal.SIGKILL for record in records),
        "stopped_by_signal": sum(
            record["exit_code"] in (130, 143, -signal.SIGINT, -signal.SIGTERM) for record in records
        ),
        "requests": sum(record["sent"] for record in records),
        "failed_requests": sum(record["failed_requests"] for record in records),
        "recovery_s_median": times[len(times) // 2],
        "recovery_s_max": times[-1],
    }
