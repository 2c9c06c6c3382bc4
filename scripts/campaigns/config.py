"""Mutated opsctl.yaml files: each is refused with line, key and nearest key; nothing is touched.

The library reads every one of them, the command a sample.
"""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opsctl import shell
from opsctl.config.load import load
from opsctl.config.problems import ConfigFileError
from tests.config.mutations import Mutant, mutate

RUNS = 630
"""30 of each kind of mutation."""

COMMAND_EVERY = 16
"""The command reads one file in so many: prime to the number of kinds, so all have their turn."""

COMMAND_MAX_S = 30.0
CONFIG_EXIT_CODE = 2
ROOT = Path(__file__).parents[2]


def run_one(seed: int, index: int, workdir: Path) -> dict[str, Any]:
    """One mutant; `why` says what was wrong with the answer."""
    mutant = mutate(seed, index)
    file = workdir / "opsctl.yaml"
    file.write_bytes(mutant.data)
    complaints = _by_library(mutant, file)
    by_command = index % COMMAND_EVERY == 0
    if by_command:
        complaints += _by_command(mutant, file)
    others = sorted(path.name for path in workdir.iterdir() if path != file)
    if others or file.read_bytes() != mutant.data:
        complaints.append(f"the folder was touched: {others or 'opsctl.yaml'}")
    return {
        "ok": not complaints,
        "kind": mutant.kind,
        "by_command": by_command,
        "why": "; ".join(complaints),
    }


def _by_library(mutant: Mutant, file: Path) -> list[str]:
    try:
        load(file, environment="production", service=None)
    except ConfigFileError as error:
        return mutant.complaints(error)
    return ["load took the file"]


def _by_command(mutant: Mutant, file: Path) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPSCTL")}
    done = shell.run(
        [sys.executable, "-m", "opsctl.cli", "config", "validate", "-c", file.name],
        timeout_s=COMMAND_MAX_S,
        cwd=file.parent,
        env={**kept, "PYTHONPATH": str(ROOT)},
    )
    told = done.stdout + done.stderr
    place = f"{file.name}:{mutant.line or ''}"
    complaints = [] if done.exit_code == CONFIG_EXIT_CODE else [f"exit code {done.exit_code}"]
    complaints += [
        f"the command does not tell {wanted}: {told[-500:]}"
        for wanted in (place, mutant.key, mutant.nearest)
        if wanted and wanted not in told
    ]
    if "Traceback" in told:
        complaints.append("the command shows a traceback")
    return complaints


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many of each kind, and how many by the command."""
    return {
        "kinds": dict(sorted(collections.Counter(r["kind"] for r in records).items())),
        "by_command": sum(r["by_command"] for r in records),
    }
