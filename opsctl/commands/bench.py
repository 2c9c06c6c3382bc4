"""bench run and compare: measurements of a release, kept beside the service's other state.

benchmarks/r12/<unix seconds>.json
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Bench, Project
from opsctl.console import Console
from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.files import write_atomically
from opsctl.model import Json
from opsctl.reader import reader

SEED_MAX = 2**31
"""Seeds fit 32 bits, so that they are easily typed again."""


def run(project: Project, console: Console, release: str | None) -> Outcome:
    """Measure a release that runs, by default the one that serves, at its private endpoint."""
    from opsctl.bench import BenchRequest, measure

    bench = _bench(project)
    look = reader(project)
    chosen = release or look.last_state().serving_release
    if chosen is None:
        raise ConfigError("nothing serves, so there is nothing to measure")
    endpoints = look.target.endpoints(chosen)
    if not endpoints:
        raise TargetUnreachable(f"{chosen} does not run", next_step="See: opsctl status")
    pid = next((r.pid for r in look.target.observe().of(chosen) if r.pid), 0)
    seed = random.randrange(SEED_MAX) if bench.seed is None else bench.seed
    request = BenchRequest(endpoints[0], bench, project.root, seed, pid=pid, release=chosen)
    report = measure(request, tell=console.tell, interrupt=lambda: None).to_dict()
    path = _folder(project, chosen) / f"{int(look.clock.now())}.json"
    write_atomically(path, json.dumps(report, indent=1))
    lines = [*_table(report), f"kept as {path}"]
    return Outcome(0, {"outcome": "measured", "exit_code": 0, **report}, "\n".join(lines))


def compare(project: Project, a: str, b: str) -> Outcome:
    """Compare two stored measurements: names of releases (their newest), or files."""
    from opsctl.bench import compare as compare_reports

    comparison = compare_reports(_stored(project, a), _stored(project, b))
    data = {"outcome": "compared", "exit_code": 0, **comparison.to_dict()}
    return Outcome(0, data, "\n".join(comparison.lines()))


def _bench(project: Project) -> Bench:
    if project.service.bench is None:
        raise ConfigError(
            f"services.{project.service_name}.bench is missing, so there is no load to send",
            next_step="See: opsctl config docs services.*.bench",
        )
    return project.service.bench


def _folder(project: Project, release: str) -> Path:
    return project.service_dir / "benchmarks" / release


def _stored(project: Project, name: str) -> Json:
    path = Path(name)
    if not path.is_file():
        kept = sorted(_folder(project, name).glob("*.json"))
        if not kept:
            raise ConfigError(
                f"there is no measurement of {name}",
                next_step=f"Run: opsctl bench run {name} (while it runs)",
            )
        path = kept[-1]
    try:
        report: Json = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError(f"{path} is no measurement", why=str(error)) from error
    return report


def _table(report: Json) -> list[str]:
    lines = ["batch      p50 ms    p99 ms  requests  errors"]
    for size, row in report["batch_sizes"].items():
        arm = row["candidate"]
        lines.append(
            f"{size:>5}  {arm['p50_ms']:10.3f}{arm['p99_ms']:10.3f}"
            f"{arm['requests']:10d}{arm['errors']:8d}"
        )
    return lines
