"""How late the generator is at 1,000 requests a second, and what vegeta says of the same server.

python -m tests.bench.lateness [path of vegeta]
"""

from __future__ import annotations

import json
import subprocess
import sys

from opsctl.bench.bodies import Bodies
from opsctl.bench.figures import Record, histogram, percentile_ms, summary_ms
from opsctl.bench.load import LoadPlan
from opsctl.bench.report import BenchRequest
from opsctl.bench.session import CpuMeter, session
from opsctl.bench.single import FixedCourse
from opsctl.config.settings import Bench
from opsctl.model import Endpoint, Json
from tests.bench.server import ROOT, Behaviour, running

RATE = 1000.0
SECONDS = 8.0


def ours(endpoint: Endpoint, behaviour: Behaviour) -> Json:
    """Lag, percentiles and CPU of this project's generator."""
    bench = Bench(path="/", rate_per_s=RATE, arrivals="constant", connections=64)
    plan = LoadPlan((endpoint,), bench, Bodies({1: (b"{}",)}), 1)
    record = Record((1,), 1)
    request = BenchRequest(endpoint, bench, ROOT, 1, SECONDS)
    with session(plan, ()) as opened:
        meter = CpuMeter({})
        opened.drive(FixedCourse(1, request, record, lambda: None))
        made = histogram(record.arm(0), bench.timeout_s)
        return {
            "requests": record.rounds(),
            "errors": record.failures_of(0).total(),
            "p50_ms": percentile_ms(made, 50.0),
            "p99_ms": percentile_ms(made, 99.0),
            "lag_ms": summary_ms(opened.generator.lags),
            "cpu_percent": meter.report()["client"]["ran"],
        }


def vegeta(binary: str, endpoint: Endpoint) -> Json:
    """The same load by vegeta (github.com/tsenart/vegeta), an independent open-loop generator."""
    attack = subprocess.run(
        [binary, "attack", f"-rate={RATE:.0f}", f"-duration={SECONDS:.0f}s", "-connections=64"],
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


def main(argv: list[str]) -> int:
    behaviours = {
        "quick": Behaviour(service_ms=0.05),
        "stalls 40 ms every 0.5 s": Behaviour(service_ms=0.05, stall_ms=40.0, stall_every_s=0.5),
    }
    for name, behaviour in behaviours.items():
        with running(behaviour) as served:
            result = {"server": name, "ours": ours(served.endpoint, behaviour)}
            if argv:
                result["vegeta"] = vegeta(argv[0], served.endpoint)
        sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
