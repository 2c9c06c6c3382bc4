"""`scripts/bench gate --seed N`: the gate against its bars, and beside its peers, simulated.

Each row of the table is kept in build/gate/ as it ends: stopped by Ctrl-C (or anything else), the
same command with the same --seed goes on where it was. Rows that other code made are made anew.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict
from functools import partial

from opsctl.targets.kubernetes.tied import PR_SET_PDEATHSIG
from tests.bench import lateness, live
from tests.bench.kept import BUILD, Kept, Parts, Stop, add_seed, code_of
from tests.bench.simulator import claims, rows
from tests.bench.simulator.ours import Result
from tests.bench.stall import stall_row

CHUNK_MOST = 10
"""Runs that a process is given at a time: what a stopped campaign still waits for."""

PEER_RUNS = 1000
PEER_RUNS_QUICK = 20


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("gate",))
    add_seed(parser)
    parser.add_argument("--quick", action="store_true", help="few runs, under a minute")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="rows whose name contains this; no peers")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["live"]:
        return live.main(argv[1:])
    if argv[:1] == ["lateness"]:
        return lateness.main(list(argv[1:]))
    options = parse(argv)
    kept = campaign(options)
    stop = Stop()
    say(f"seed {options.seed}, {options.jobs} processes{', quick' if options.quick else ''}")
    say(f"kept in {kept.path}")
    try:
        return simulated(options, Parts(kept), stop)
    except KeyboardInterrupt:
        say(f"stopped; go on with: scripts/bench {' '.join(again(options))}")
        return 130


def campaign(options: argparse.Namespace) -> Kept:
    """Where the rows of this seed are kept."""
    name = f"{options.seed}{'-quick' if options.quick else ''}.jsonl"
    code = code_of("opsctl/bench", "opsctl/config", "tests/bench/simulator")
    return Kept(BUILD / "gate" / name, code)


def again(options: argparse.Namespace) -> list[str]:
    """The arguments that go on with this seed."""
    flags = [f"--{name}" for name in ("quick", "json") if getattr(options, name)]
    only = ["--only", shlex.quote(options.only)] if options.only else []
    return ["gate", "--seed", str(options.seed), "--jobs", str(options.jobs), *flags, *only]


def simulated(options: argparse.Namespace, parts: Parts, stop: Stop) -> int:
    """Make or read every part, show it, and say whether all bars are kept (0) or not (1)."""
    started = time.monotonic()
    peers: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(options.jobs, initializer=follow_the_parent) as pool:
        each = partial(spread, pool, options.jobs, stop)
        seen = [
            shown(parts, row.name, partial(row_of, number, options, each))
            for number, row in enumerate(rows.ROWS)
            if options.only in row.name
        ]
        if not options.only:
            runs = PEER_RUNS_QUICK if options.quick else PEER_RUNS
            peers = claims.table(options.seed, runs, each, parts)
            told = claims.claims(options.seed, runs, each, peers)
            seen += [shown(parts, name, make) for name, make in told.items()]
    if not options.only:
        seen.append(shown(parts, "stall", partial(stall_row, options.seed)))
        say_peers(peers)
    ok = bool(seen) and all(one.ok for one in seen)
    say(f"{'all bars kept' if ok else 'A BAR IS MISSED'} in {time.monotonic() - started:.0f} s")
    if options.json:
        rows_json = [one.__dict__ for one in seen]
        json.dump({"seed": options.seed, "ok": ok, "rows": rows_json, "peers": peers}, sys.stdout)
        sys.stdout.write("\n")
    return 0 if ok else 1


def follow_the_parent() -> None:
    """Ctrl-C reaches every process of the terminal; these end with their parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def spread(
    pool: Executor, jobs: int, stop: Stop, run: rows.Run, seeds: Sequence[tuple[int, ...]]
) -> Iterator[Result]:
    """The results of all seeds, in their order."""
    chunk = min(CHUNK_MOST, max(1, len(seeds) // (8 * jobs)))
    for result in pool.map(run, seeds, chunksize=chunk):
        stop.interrupt()
        yield result


def row_of(number: int, options: argparse.Namespace, each: rows.Map) -> rows.Seen:
    return rows.judge(rows.ROWS[number], number, options.seed, each, quick=options.quick)


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def shown(parts: Parts, name: str, make: Callable[[], rows.Seen]) -> rows.Seen:
    """A row, made unless it is kept, and told."""
    one = rows.Seen(**parts.of(name, lambda: asdict(make())))
    say(f"{'ok    ' if one.ok else 'MISSED'} {one.name}\n         bar   {one.bar}")
    say(f"         seen  {one.seen}")
    return one


def say_peers(peers: dict[str, dict[str, float]]) -> None:
    """Percent of runs that fail, by method."""
    columns = list(next(iter(peers.values())))
    say("\npercent of runs that fail (180 s budget)")
    say(f"{'':38}" + "".join(f"{column:>17}" for column in columns))
    for name, values in peers.items():
        say(f"{name:38}" + "".join(f"{values[column]:17.1f}" for column in columns))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
