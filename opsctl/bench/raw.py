"""Raw data of a running benchmark on disk, so that an interrupted one leaves what it measured."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

from opsctl.bench.load import Round
from opsctl.bench.report import FORMAT

PARTIAL = "gate_partial"
"""The kind that the head of such a file names."""

FLUSH_S = 1.0
"""How much may be lost to a SIGKILL; a write takes a fraction of a millisecond."""


class RawLog:
    """JSON lines: a head, then `[seconds, batch size, [latency ms or error, by arm]]` a round.

    The arms are the baseline (unless there is none) and the candidate. Without a path nothing is
    kept. A file of an earlier, interrupted measurement gets a number: `….1.jsonl`.
    """

    def __init__(self, path: Path | None, seed: int) -> None:
        self.path = path
        self.lines: list[str] = []
        self.flushed = time.monotonic()
        self.earlier: Path | None = None
        """Where the file of an earlier measurement is now."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.earlier = _set_aside(path)
            head = {"format": FORMAT, "kind": PARTIAL, "seed": seed}
            path.write_text(json.dumps(head) + "\n")

    def add(self, done: Round, at_s: float) -> None:
        if self.path is None:
            return
        values = [
            error or round(latency * 1000.0, 3)
            for latency, error in zip(done.latencies, done.errors, strict=True)
        ]
        self.lines.append(json.dumps([round(at_s, 4), done.size, values]))

    def flush(self, *, now: bool = False) -> None:
        """Write what has come since the last time, at most once a `FLUSH_S` unless `now`."""
        due = time.monotonic() - self.flushed >= FLUSH_S
        if self.path is None or not self.lines or not (due or now):
            return
        with self.path.open("a") as output:
            output.write("\n".join(self.lines) + "\n")
        self.lines.clear()
        self.flushed = time.monotonic()


def rounds_in(path: Path) -> int | None:
    """How many rounds a file of this form has; None for another file."""
    try:
        with path.open() as lines:
            head = json.loads(next(lines, ""))
            if not isinstance(head, dict) or head.get("kind") != PARTIAL:
                return None
            return sum(line.endswith("\n") for line in lines)
    except (OSError, ValueError):
        return None


def _set_aside(path: Path) -> Path | None:
    """Give an older file another name: what an interrupted gate measured is not overwritten."""
    if not path.exists():
        return None
    names = (path.with_suffix(f".{number}{path.suffix}") for number in itertools.count(1))
    return path.rename(next(name for name in names if not name.exists()))
