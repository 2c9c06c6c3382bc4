"""bench run, compare and trend: measurements of releases, kept beside the service's other state.

benchmarks/r12/<unix seconds>.json     by `bench run`; `….partial.jsonl`: it was interrupted
reports/0007/gate-1.json               by the gate of rollout 7, whose candidate is in 0007.json
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from opsctl.commands.chosen import chosen_release
from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Bench, Project
from opsctl.console import Console
from opsctl.errors import ConfigError, GateUndecided, HealthFailed
from opsctl.files import write_atomically
from opsctl.model import Json
from opsctl.reader import reader

PARTIAL_SUFFIX = ".partial.jsonl"

SEED_MAX = 2**31
"""Seeds fit 32 bits, so that they are easily typed again."""


def run(project: Project, console: Console, release: str | None) -> Outcome:
    """Measure a release that runs, by default the one that serves, at its private endpoint."""
    from opsctl.bench import BenchRequest, measure

    bench = _bench(project)
    look = reader(project)
    chosen = chosen_release(look, release)
    endpoints = look.target.endpoints(chosen)
    if not endpoints:
        raise HealthFailed(f"{chosen} does not run", next_step="See: opsctl status")
    pid = next((r.pid for r in look.target.observe().of(chosen) if r.pid), 0)
    path = _runs(project) / chosen / f"{int(look.clock.now())}.json"
    request = BenchRequest(
        endpoints[0],
        bench,
        project.root,
        random.randrange(SEED_MAX) if bench.seed is None else bench.seed,
        pid=pid,
        release=chosen,
        gate=project.service.gate,
        progress_path=path.with_suffix(PARTIAL_SUFFIX),
    )
    report = measure(request, tell=console.tell, interrupt=lambda: None).to_dict()
    write_atomically(path, json.dumps(report, indent=1))
    path.with_suffix(PARTIAL_SUFFIX).unlink(missing_ok=True)
    return _measured(report, path)


def _measured(report: Json, path: Path) -> Outcome:
    """The figures, and whether they are worth anything."""
    sound = report["outcome"] == "measured"
    code = 0 if sound else GateUndecided.exit_code
    lines = _table(report)
    if not sound:
        lines.append(
            f"{report['outcome']}: {report['reason']}; nothing compares with these figures"
        )
    lines.append(f"kept as {path}")
    return Outcome(code, {"exit_code": code, **report}, "\n".join(lines))


def compare(project: Project, a: str, b: str) -> Outcome:
    """Compare two stored measurements: names of releases (their newest sound one), or files."""
    from opsctl.bench import compare as compare_reports

    before, after = _stored(project, a), _stored(project, b)
    comparison = compare_reports(before.report, after.report)
    cautions = [*comparison.cautions, *before.cautions, *after.cautions]
    comparison = replace(comparison, cautions=tuple(cautions))
    data = {"outcome": "compared", "exit_code": 0, **comparison.to_dict()}
    return Outcome(0, data, "\n".join(comparison.lines()))


def trend(project: Project) -> Outcome:
    """Latency over the releases, from `bench run` and from gates: never both in one series, as
    another load makes other figures."""
    from opsctl.bench import trend as trend_of

    runs = [_read(path) for path in sorted(_runs(project).glob("*/*.json"))]
    found = {"runs": trend_of(runs), "gates": trend_of(list(_gates(project)))}
    titles = {"runs": "measurements (opsctl bench run)", "gates": "gates of rollouts (candidates)"}
    lines = []
    for source, one in found.items():
        lines.append(f"{titles[source]}: {one.count}")
        lines += [f"  {line}" for line in one.lines()]
    data = {source: one.to_dict() for source, one in found.items()}
    return Outcome(0, {"outcome": "ok", "exit_code": 0, **data}, "\n".join(lines))


def _gates(project: Project) -> Iterator[Json]:
    """The reports of all gates that measured, with their candidate's name."""
    for path in sorted((project.service_dir / "reports").glob("[0-9]*/gate-*.json")):
        report = path.parent.with_suffix(".json")
        if report.is_file():
            gate = _read(path)
            if any(arms["candidate"]["requests"] for arms in gate["batch_sizes"].values()):
                yield {**gate, "release": _read(report)["candidate"]}


def _bench(project: Project) -> Bench:
    if project.service.bench is None:
        raise ConfigError(
            f"services.{project.service_name}.bench is missing, so there is no load to send",
            next_step="See: opsctl config docs services.*.bench",
        )
    return project.service.bench


def _runs(project: Project) -> Path:
    return project.service_dir / "benchmarks"


@dataclass(frozen=True)
class Stored:
    """A measurement, and what else is there that decides nothing."""

    report: Json
    cautions: tuple[str, ...] = ()


def _stored(project: Project, name: str) -> Stored:
    """A file, or the newest measurement of a release: by `bench run`, else by its gate.

    A measurement that failed or was disturbed is taken only where there is no other.
    """
    from opsctl.bench import broken

    path = Path(name)
    if path.is_file():
        return Stored(_read(path))
    folder = _runs(project) / name
    runs = [_read(path) for path in sorted(folder.glob("*.json"))]
    interrupted = [_interrupted(path) for path in sorted(folder.glob("*.partial*.jsonl"))]
    gates = [gate for gate in _gates(project) if gate["release"] == name]
    for found in (runs, gates):
        sound = [report for report in found if not broken(report)]
        if sound:
            newer = [report for report in found if report["started"] > sound[-1]["started"]]
            useless = [f"a newer measurement of {name} is of no use: {broken(r)}" for r in newer]
            return Stored(sound[-1], (*useless, *interrupted))
    if runs or gates:
        return Stored((runs or gates)[-1])
    raise ConfigError(
        f"there is no measurement of {name}",
        why="; ".join(interrupted),
        next_step=f"Run: opsctl bench run {name} (while it runs)",
    )


def _interrupted(path: Path) -> str:
    from opsctl.bench import rounds_in

    return f"{path} is of an interrupted measurement ({rounds_in(path) or 0} requests)"


def _read(path: Path) -> Json:
    from opsctl.bench import rounds_in

    if rounds_in(path) is not None:
        raise ConfigError(
            f"{path} is no measurement to compare with",
            why=_interrupted(path),
            next_step="Measure again: opsctl bench run, or opsctl resume where a gate was.",
        )
    try:
        report: Json = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is no measurement", why=str(error)) from error
    if not isinstance(report, dict):
        raise ConfigError(f"{path} is no measurement", why="it holds no JSON object")
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
