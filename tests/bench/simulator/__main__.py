"""`scripts/bench gate --seed N`: the gate against its bars, and beside its peers, simulated."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.bench import lateness, live
from tests.bench.simulator import claims, rows
from tests.bench.simulator.ours import Result
from tests.bench.stall import stall_row

SEED_MAX = 2**31

PEER_RUNS = 1000
PEER_RUNS_QUICK = 20


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("command", choices=("gate",))
    parser.add_argument("--seed", type=int, default=random.randrange(SEED_MAX))
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
    started = time.monotonic()
    say(f"seed {options.seed}, {options.jobs} processes{', quick' if options.quick else ''}")
    with ProcessPoolExecutor(options.jobs) as pool:

        def each(
            run: Callable[[tuple[int, ...]], Result], seeds: Sequence[tuple[int, ...]]
        ) -> Iterable[Result]:
            return pool.map(run, seeds, chunksize=max(1, len(seeds) // (8 * options.jobs)))

        seen = [
            shown(rows.judge(row, number, options.seed, each, quick=options.quick))
            for number, row in enumerate(rows.ROWS)
            if options.only in row.name
        ]
        peers: dict[str, dict[str, float]] = {}
        if not options.only:
            runs = PEER_RUNS_QUICK if options.quick else PEER_RUNS
            peers = claims.table(options.seed, runs, each)
            seen += [shown(one) for one in claims.claims(options.seed, runs, each, peers)]
    if not options.only:
        seen.append(shown(stall_row(options.seed)))
        say_peers(peers)
    ok = all(one.ok for one in seen)
    say(f"{'all bars kept' if ok else 'A BAR IS MISSED'} in {time.monotonic() - started:.0f} s")
    if options.json:
        rows_json = [one.__dict__ for one in seen]
        json.dump({"seed": options.seed, "ok": ok, "rows": rows_json, "peers": peers}, sys.stdout)
        sys.stdout.write("\n")
    return 0 if ok else 1


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def shown(one: rows.Seen) -> rows.Seen:
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
