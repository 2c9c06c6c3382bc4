"""scripts/campaign: choose the campaign, skip the runs that are done, sum up."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from opsctl import shell

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "campaigns"
LINE_EVERY_S = 1.0
"""Short runs are not worth a line each."""

Record = dict[str, Any]


def names() -> list[str]:
    """Names of the campaigns there are."""
    return sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if not path.stem.startswith("_") and "RUNS = " in path.read_text()
    )


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    if options.list:
        print("\n".join(names()))
        return 0
    campaign = importlib.import_module(f"scripts.campaigns.{options.name}")
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    runs = options.runs or campaign.RUNS
    out = Path(options.out) if options.out else OUT / f"{options.name}-{seed}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    tell(f"campaign {options.name}: {runs} runs, seed {seed}, records in {out}")
    done = read(out, options.name, seed)
    missing = [index for index in range(runs) if index not in done]
    signal.signal(signal.SIGTERM, stop)
    whole: Record = {}
    interrupted = False
    keep = Keeper(out, options.name, seed, runs, done)
    try:
        if options.jobs > 1:
            chosen = [options.name, "--seed", str(seed), "--runs", str(runs), "--out", str(out)]
            whole = run_jobs(chosen, out, options.jobs)
            done.update(read(out, options.name, seed))
        else:
            part, parts = options.part or (0, 1)
            own = [index for index in missing if index % parts == part]
            whole = run(campaign, seed, own, keep)
    except KeyboardInterrupt:
        interrupted = True
        tell(f"interrupted; go on with: scripts/campaign {options.name} --seed {seed}")
    if options.part:
        return 0 if whole.get("ok", True) and not interrupted else 1
    summary = sum_up(campaign, [done[index] for index in sorted(done) if index < runs], runs)
    ok = summary["ok"] and whole.get("ok", True) and not interrupted
    summary = {"campaign": options.name, "seed": seed, **summary, **whole, "ok": ok}
    print(json.dumps(summary, indent=2))
    return 0 if ok else 1


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/campaign")
    parser.add_argument("name", nargs="?", choices=names(), help="which campaign")
    parser.add_argument("--list", action="store_true", help="name all campaigns")
    parser.add_argument("--seed", type=int, help="default: a new one, printed")
    parser.add_argument("--runs", type=int, help="default: the campaign's own number")
    parser.add_argument("--out", help="file of JSON lines, one a run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the runs")
    parser.add_argument("--part", type=part_of, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if not options.name and not options.list:
        parser.error("say which campaign, or --list")
    return options


def part_of(text: str) -> tuple[int, int]:
    """`1/3`: the second of three processes."""
    part, _, parts = text.partition("/")
    return int(part), int(parts)


def run_jobs(chosen: Sequence[str], out: Path, count: int) -> Record:
    """Share the missing runs among processes that write into one file."""
    command = [sys.executable, "-m", "scripts.campaigns", *chosen]
    logs = [out.with_suffix(f".part{part}.log") for part in range(count)]
    tell(f"progress in {' '.join(map(str, logs))}")
    jobs = [
        shell.spawn([*command, "--part", f"{part}/{count}"], cwd=ROOT, env=os.environ, log=log)
        for part, log in enumerate(logs)
    ]
    try:
        codes = [job.wait() for job in jobs]
    except KeyboardInterrupt:
        for job in jobs:
            job.send_signal(signal.SIGTERM)
            job.wait()
        raise
    return {"ok": not any(codes)}


class Keeper:
    """Writes each record as soon as it is there."""

    def __init__(self, out: Path, name: str, seed: int, runs: int, done: dict[int, Record]) -> None:
        self.out = out
        self.head = {"campaign": name, "seed": seed}
        self.runs = runs
        self.done = done
        self.told = 0.0

    def __call__(self, record: Record) -> None:
        record = {**self.head, **record}
        with self.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.done[record["index"]] = record
        if record["ok"] and time.monotonic() - self.told < LINE_EVERY_S:
            return
        self.told = time.monotonic()
        mark = "ok" if record["ok"] else f"NOT OK: {record.get('why', '')}"
        name = record.get("kind", "")
        tell(f"[{record['index'] + 1}/{self.runs}] {name} {record.get('seconds', 0):.1f} s {mark}")


def run(campaign: ModuleType, seed: int, missing: Sequence[int], keep: Keeper) -> Record:
    """Make the runs that are missing; what a chained campaign says of the whole."""
    if not missing:
        return {}
    if hasattr(campaign, "run_all"):
        with Workdir() as workdir:
            try:
                whole: Record = campaign.run_all(seed, missing, workdir.path, keep)
            except Exception as error:  # noqa: BLE001  the summary is wanted all the same
                whole = {"ok": False, **broken(error)}
            workdir.keep = not whole.get("ok", True)
        return whole
    for index in missing:
        keep(run_once(campaign, seed, index))
    return {}


def run_once(campaign: ModuleType, seed: int, index: int) -> Record:
    """One run in a folder of its own, which stays when the run is not ok."""
    started = time.monotonic()
    with Workdir() as workdir:
        try:
            record: Record = campaign.run_one(seed, index, workdir.path)
        except Exception as error:  # noqa: BLE001  a run that breaks is a record like any other
            record = {"ok": False, **broken(error)}
        record.setdefault("seconds", round(time.monotonic() - started, 3))
        if not record["ok"]:
            workdir.keep = True
            record["workdir"] = str(workdir.path)
    return {"index": index, **record}


def broken(error: Exception) -> Record:
    """What broke, and where; to be called while it is handled."""
    where = traceback.format_exc(limit=-3)
    return {"why": f"{type(error).__name__}: {error}", "where": where}


class Workdir:
    """A temporary folder below build/, removed at the end unless somebody wants to look at it."""

    keep = False

    def __enter__(self) -> Workdir:
        OUT.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="work-", dir=OUT))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if not self.keep and error is None:
            shutil.rmtree(self.path, ignore_errors=True)


def read(out: Path, name: str, seed: int) -> dict[int, Record]:
    """Records of this campaign and seed that are in the file, by index."""
    done: dict[int, Record] = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # torn by an interruption: that run is made again
        if (record.get("campaign"), record.get("seed")) == (name, seed):
            done[record["index"]] = record
    return done


def sum_up(campaign: ModuleType, records: Sequence[Record], runs: int) -> Record:
    """The figures of the whole."""
    failed = [record["index"] for record in records if not record["ok"]]
    summarise: Callable[[Sequence[Record]], Record] = getattr(campaign, "summarise", lambda _: {})
    figures = summarise(records) if records else {}
    return {
        "runs": len(records),
        "wanted": runs,
        "failed": failed,
        **figures,
        "ok": not failed and len(records) == runs and figures.get("ok", True),
    }


def stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a campaign as Ctrl-C does, so that what it started is taken down."""
    raise KeyboardInterrupt


def tell(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
