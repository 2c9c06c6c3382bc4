"""The page of a gate as it is really measured, so that neither form drifts away from the other."""

from __future__ import annotations

import json
import os
from pathlib import Path

from opsctl import bench
from opsctl.config import settings
from tests.bench.server import Behaviour, running
from tests.report.document import parse
from tests.report.rollouts import written
from tests.report_records import Records

BEHAVIOUR = Behaviour(service_ms=0.5, cpus=(max(os.sched_getaffinity(0)),))
LOAD = settings.Bench(
    path="/", body={"a": 1}, warmup_s=0.2, warmup_max_s=2.0, rate_per_s=150.0, batch_sizes=(1,)
)
GATE = settings.Gate(
    budget_s=3.0, min_pairs=5000, max_lag_percent=10_000.0, metrics=("p50", "errors")
)
"""More pairs than the time allows: whatever the machine does, there is no verdict."""


def test_a_real_gate_has_its_charts_figures_and_surroundings_on_the_page(tmp_path: Path) -> None:
    with running(BEHAVIOUR) as old, running(BEHAVIOUR) as new:
        asked = bench.GateRequest(
            *(old.endpoint, new.endpoint, LOAD, GATE, Path()),
            seed=5,
            baseline_pid=old.process.pid,
            candidate_pid=new.process.pid,
        )
        measured = bench.run_gate(asked, tell=lambda _: None, interrupt=lambda: None).to_dict()
    records = Records().opened().step(0, {}).closed("rolled_back", 10, "gate failed")
    files, _ = written(tmp_path, records, [json.loads(json.dumps(measured))])
    page = parse(files.html.read_text())
    assert measured["outcome"] in ("inconclusive", "no_data")
    assert f"{measured['reason'][1:]}." in page.text
    titles = [one.text for one in page.all("figure") for one in one.all("title")]
    assert titles == ["Change of p50, batch size 1", "Latency distribution, batch size 1"]
    (section,) = [o for o in page.all("section") if o.all()[0].text.startswith("Environment")]
    environment = section.all("dl")[0]
    facts = {one.one("dt").text: one.one("dd").text for one in environment.all("div")}
    assert facts["seed"] == "5"
    assert facts["fingerprint"] == measured["machine"]["id"]
    assert facts["rounds"] == f"{measured['rounds']:,}"
    used = measured["cpu_percent"]["candidate"]
    assert facts["CPU of the candidate"] == (
        f"{used['ran']:.1f} % of one core, waited {used['waited']:.1f} %"
    )
    comment = files.markdown.read_text()
    p50_ms = measured["batch_sizes"]["1"]["baseline"]["p50_ms"]
    # About three digits, however slow the machine is.
    decimals = 0 if p50_ms >= 100 else 1 if p50_ms >= 10 else 2
    assert f"| 1 | {p50_ms:,.{decimals}f}".replace(".", r"\.") in comment
