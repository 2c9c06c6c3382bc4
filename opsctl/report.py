"""Reports of rollouts: JSON (report_schema.json), a page of text, one of HTML, and Markdown.

    reports/0007.json  0007.txt  0007.html  0007.md
    reports/0007/ (gate-1.json, r13.log, …, performance_<environment>.json)
    reports/performance_<environment>.json   the newest benchmark

Everything that gets in passes the redactor first, also the files that the rollout's steps left.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opsctl.model import Json
from opsctl.redact import Redactor
from opsctl.report_content import RolloutRecords, performance_of, report_of
from opsctl.report_text import text_of

_NUMBER = re.compile(r"([0-9]{4,})(\.json|\.txt|\.html|\.md)?")
LOG_SUFFIXES = (".log", ".events")


@dataclass(frozen=True)
class Written:
    """Where a report lies."""

    json: Path
    text: Path
    html: Path
    markdown: Path
    performance: Path | None = None


def write_report(
    directory: Path, rollout: RolloutRecords, redactor: Redactor, *, keep: int
) -> Written:
    """Write the report of a rollout and forget all but the newest `keep` ones.

    What the rollout's steps left in `directory/NNNN/` is redacted in place and read: gate-N.json,
    *.log, *.events. Writing twice gives the same. Raises OSError when it can't be written.
    """
    name = f"{rollout.number:04d}"
    artefacts = directory / name
    directory.mkdir(parents=True, exist_ok=True)
    _redact_files(artefacts, redactor)
    gates, damaged = _gates(artefacts)
    rollout = replace(rollout, gates=gates, logs=_logs(artefacts))
    report: Json = _finite(redactor.json(report_of(rollout)))
    warnings = [*report["warnings"], *damaged, *redactor.warnings]
    report["warnings"] = list(dict.fromkeys(warnings))
    written = Written(
        json=directory / f"{name}.json",
        text=directory / f"{name}.txt",
        html=directory / f"{name}.html",
        markdown=directory / f"{name}.md",
        performance=_performance(directory, report),
    )
    _write(written.json, _spelled(report))
    _write(written.text, text_of(report))
    _write_pages(written, report, [_finite(gate) for gate in gates])
    forget_reports(directory, keep)
    return written


def _write_pages(written: Written, report: Json, gates: Sequence[Json]) -> None:
    # Imported here: they need the template engine, which no command that only looks should load.
    from opsctl.report_html import html_of
    from opsctl.report_markdown import markdown_of

    _write(written.html, html_of(report, gates))
    _write(written.markdown, markdown_of(report, gates))


def read_report(directory: Path, number: int) -> Json | None:
    """A report as written, None when there is none."""
    try:
        report: Json = json.loads((directory / f"{number:04d}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return report


def forget_reports(directory: Path, keep: int) -> None:
    """Remove the reports of all but the newest `keep` rollouts."""
    found: dict[int, list[Path]] = {}
    for path in directory.iterdir():
        match = _NUMBER.fullmatch(path.name)
        if match:
            found.setdefault(int(match[1]), []).append(path)
    for number in sorted(found)[:-keep]:
        for path in found[number]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def schema() -> Json:
    """The JSON schema of a report."""
    text = Path(__file__).with_name("report_schema.json").read_text(encoding="utf-8")
    loaded: Json = json.loads(text)
    return loaded


def _performance(directory: Path, report: Mapping[str, Any]) -> Path | None:
    performance = performance_of(report)
    if performance is None:
        return None
    name = f"performance_{report['environment']}.json"
    _write(directory / f"{report['rollout']:04d}" / name, _spelled(performance))
    _write(directory / name, _spelled(performance))
    return directory / name


def _redact_files(folder: Path, redactor: Redactor) -> None:
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            clean = redactor.text(text)
            if clean != text:
                _write(path, clean)


def _gates(folder: Path) -> tuple[list[Json], list[str]]:
    """The gate's reports that are whole, and a warning for each that a kill tore."""
    gates, damaged = [], []
    for path in sorted(folder.glob("gate-*.json")):
        try:
            gates.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            damaged.append(f"{path.name} is damaged and left out")
    return gates, damaged


def _logs(folder: Path) -> dict[str, list[str]]:
    if not folder.exists():
        return {}
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace").splitlines()
        for path in sorted(folder.iterdir())
        if path.suffix in LOG_SUFFIXES
    }


def _finite(value: Any) -> Any:
    """The value with null where a figure is NaN or infinite, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _spelled(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    """The whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(path)
