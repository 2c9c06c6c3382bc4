"""How late the generator is at 1,000 requests a second, beside what vegeta says of the same server.

    scripts/bench lateness [--runs N] [--seed N] [--seconds S] [--vegeta PATH] [--unpinned]

Each run asks each server by both generators, one after the other, at 1,000 evenly spaced requests
a second. vegeta (github.com/tsenart/vegeta, version 12.13) is an independent open-loop generator;
where it is missing, Go builds it. A line a measurement, then the medians with their bars. Stopped
early, it sums up what there is, and the same command with the same --seed goes on where it was:
each measurement is kept in build/lateness/.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opsctl.bench.bodies import Bodies
from opsctl.bench.figures import Record, histogram, percentile_ms, summary_ms
from opsctl.bench.load import LoadPlan
from opsctl.bench.report import BenchRequest
from opsctl.bench.session import CpuMeter, session
from opsctl.bench.single import FixedCourse
from opsctl.config.settings import Bench
from opsctl.model import Endpoint, Json
from tests.bench.kept import BUILD, Kept, Stop, add_seed, code_of, codes
from tests.bench.server import ROOT, Behaviour, running

RATE = 1000.0
SECONDS = 8.0
CONNECTIONS = 64

LAG_MAX_MS = 1.0
AGREE = 0.10
"""The bars: p99 of the lateness, and how far p99 latencies may lie apart."""

VEGETA = "github.com/tsenart/vegeta/v12@v12.13.0"
TOOLS = BUILD / "tools"
BUILD_LIMIT_S = 600.0


@dataclass(frozen=True)
class Server:
    """One kind of server, and its true p99 where it follows from how it is made."""

    name: str
    behaviour: Behaviour
    true_p99_ms: float | None = None


SERVERS = (
    Server("0.4 ms of work, spread 0.3", Behaviour(service_ms=0.4, spread=0.3)),
    Server(
        "stalls 40 ms every 0.5 s",
        Behaviour(service_ms=0.05, stall_ms=40.0, stall_every_s=0.5),
        # Of evenly spaced requests 8 % wait; the slowest 1 % are those with 35 ms left to wait.
        40.0 - 0.01 * 500.0,
    ),
    Server(
        "stalls 200 ms every 2 s",
        Behaviour(service_ms=0.05, stall_ms=200.0, stall_every_s=2.0),
        200.0 - 0.01 * 2000.0,
    ),
)


@dataclass(frozen=True)
class Ask:
    """What both generators are asked for. `client`: CPUs of the own one (empty: any)."""

    seed: int
    seconds: float
    client: tuple[int, ...]


def ours(endpoint: Endpoint, ask: Ask, interrupt: Callable[[], None]) -> Json:
    """Lag, percentiles and CPU of this project's generator."""
    bench = Bench(path="/", rate_per_s=RATE, arrivals="constant", connections=CONNECTIONS)
    plan = LoadPlan((endpoint,), bench, Bodies({1: (b"{}",)}), ask.seed)
    record = Record((1,), 1)
    request = BenchRequest(endpoint, bench, ROOT, ask.seed, ask.seconds)
    with session(plan, ask.client) as opened:
        # Connections are open and code is warm before anything counts, as in every benchmark.
        opened.drive(
            FixedCourse(1, replace(request, seconds_a_size=1.0), Record((1,), 1), interrupt)
        )
        meter = CpuMeter({})
        opened.drive(FixedCourse(1, request, record, interrupt))
        made = histogram(record.arm(0), bench.timeout_s)
        return {
            "requests": record.rounds(),
            "errors": record.failures_of(0).total(),
            "p50_ms": percentile_ms(made, 50.0),
            "p99_ms": percentile_ms(made, 99.0),
            "lag_ms": summary_ms(opened.generator.lags),
            "cpu_percent": meter.report()["client"]["ran"],
        }


def theirs(binary: str, endpoint: Endpoint, seconds: float) -> Json:
    """The same load by vegeta."""
    attack = subprocess.run(
        [
            *(binary, "attack", f"-rate={RATE:.0f}", f"-duration={seconds:g}s"),
            *(f"-connections={CONNECTIONS}", f"-max-workers={CONNECTIONS}"),
            *(f"-workers={CONNECTIONS}", "-timeout=5s"),
        ],
        input=f"GET {endpoint.url}/\n".encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    report = subprocess.run(
        [binary, "report", "-type=json"], input=attack.stdout, stdout=subprocess.PIPE, check=True
    )
    found = json.loads(report.stdout)
    return {
        "requests": found["requests"],
        "p50_ms": found["latencies"]["50th"] / 1e6,
        "p99_ms": found["latencies"]["99th"] / 1e6,
    }


def vegeta(given: str | None) -> str | None:
    """Path of vegeta, built where it is missing; None (with a word on stderr) without Go."""
    found = given or shutil.which("vegeta") or shutil.which("vegeta", path=str(TOOLS))
    if found:
        return found
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        sys.stderr.write("vegeta is missing, and Go to build it: only the own generator runs\n")
        return None
    sys.stderr.write(f"building {VEGETA}\n")
    environment = {**os.environ, "GOBIN": str(TOOLS), "GOFLAGS": "-modcacherw"}
    built = subprocess.run(
        [go, "install", VEGETA], env=environment, timeout=BUILD_LIMIT_S, check=False
    )
    if built.returncode:
        sys.stderr.write("vegeta could not be built: only the own generator runs\n")
        return None
    return str(TOOLS / "vegeta")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench lateness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=3)
    add_seed(parser)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    parser.add_argument("--vegeta", metavar="PATH", help="default: found, or built by Go")
    parser.add_argument("--unpinned", action="store_true", help="the generator on any CPU")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    options = parse(argv)
    binary = vegeta(options.vegeta)
    kept = campaign(options)
    stop = Stop()
    done = kept.read()
    total = options.runs * len(SERVERS)
    sys.stderr.write(f"seed {options.seed}; kept in {kept.path}; {len(done)} of {total} done\n")
    try:
        for index in range(len(done), total):
            stop.interrupt()
            server = SERVERS[index % len(SERVERS)]
            client = () if options.unpinned else (min(os.sched_getaffinity(0)),)
            ask = Ask(options.seed + index, options.seconds, client)
            result = measured(server, binary, ask, stop)
            done.append(kept.add({"run": index, "server": server.name, **result}))
            sys.stderr.write(f"{index + 1}/{total} {server.name}: {line(result)}\n")
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; go on with: scripts/bench lateness {again(options)}\n")
    rows = [
        judged(server, measurements) for server in SERVERS if (measurements := of(server, done))
    ]
    ok = len(done) >= total and all(row["ok"] for row in rows)
    summary = {"ok": ok, "seed": options.seed, "code": codes(done), "servers": rows}
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0 if ok else 1


def campaign(options: argparse.Namespace) -> Kept:
    """Where the measurements of these options are kept."""
    where = "-unpinned" if options.unpinned else ""
    name = f"{options.seed}-{options.seconds:g}s{where}.jsonl"
    return Kept(BUILD / "lateness" / name, code_of("opsctl/bench"))


def again(options: argparse.Namespace) -> str:
    """The arguments that go on with these measurements."""
    where = " --unpinned" if options.unpinned else ""
    chosen = f"--runs {options.runs} --seed {options.seed} --seconds {options.seconds:g}"
    return chosen + where


def of(server: Server, done: Sequence[Json]) -> list[Json]:
    """The measurements of one server."""
    return [one for one in done if one["server"] == server.name]


def measured(server: Server, binary: str | None, ask: Ask, stop: Stop) -> Json:
    """Both generators against one server, which has a CPU of its own."""
    last = max(os.sched_getaffinity(0))
    with running(replace(server.behaviour, cpus=(last,))) as served:
        result: Json = {"ours": ours(served.endpoint, ask, stop.interrupt)}
        if binary:
            try:
                result["vegeta"] = theirs(binary, served.endpoint, ask.seconds)
            except subprocess.CalledProcessError:
                # A Ctrl-C ends vegeta too.
                stop.interrupt()
                raise
    return result


def line(result: Json) -> str:
    """One measurement for people."""
    own = result["ours"]
    said = f"p99 {own['p99_ms']:.2f} ms, lateness p99 {own['lag_ms']['p99']:.2f} ms"
    other = result.get("vegeta")
    return said if other is None else f"{said}; vegeta p99 {other['p99_ms']:.2f} ms"


def judged(server: Server, results: Sequence[Json]) -> Json:
    """Medians over the runs, each bar with whether it is kept."""
    p99 = statistics.median(one["ours"]["p99_ms"] for one in results)
    lag = statistics.median(one["ours"]["lag_ms"]["p99"] for one in results)
    row: Json = {"server": server.name, "runs": len(results), "p99_ms": p99, "lag_p99_ms": lag}
    bars = [lag <= LAG_MAX_MS]
    row["vegeta_runs"] = len(beside := [one for one in results if "vegeta" in one])
    if beside:
        # Of the same run: what disturbs the machine meets both alike, as far as it can.
        apart = [one["ours"]["p99_ms"] / one["vegeta"]["p99_ms"] - 1.0 for one in beside]
        row["vegeta_p99_ms"] = statistics.median(one["vegeta"]["p99_ms"] for one in beside)
        row["apart"] = statistics.median(apart)
        bars.append(abs(row["apart"]) <= AGREE)
    if server.true_p99_ms is not None:
        row["true_p99_ms"] = server.true_p99_ms
        bars.append(abs(p99 / server.true_p99_ms - 1.0) <= AGREE)
    return {**row, "ok": all(bars)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
