"""Finished parts of a long benchmark, one JSON line each, so that a stopped one goes on."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from opsctl.model import Json
from tests.bench.server import ROOT

BUILD = ROOT / "build"

SEED_MAX = 2**31


class Kept:
    """A file of finished parts, each with the digest of the code that made it."""

    def __init__(self, path: Path, code: str) -> None:
        self.path = path
        self.code = code

    def read(self) -> list[Json]:
        """The parts so far; a line that a kill tore is left out, from the file too."""
        if not self.path.exists():
            return []
        done: list[Json] = []
        for line in self.path.read_text().splitlines():
            try:
                done.append(json.loads(line))
            except ValueError:
                break
        self.path.write_text("".join(json.dumps(one) + "\n" for one in done))
        return done

    def add(self, found: Json) -> Json:
        """Keep one more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {**found, "code": self.code}
        with self.path.open("a") as output:
            output.write(json.dumps(kept) + "\n")
        return kept


class Parts:
    """Results by name. What is in the file, made by the same code, is not made again."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.done = {one["part"]: one["result"] for one in kept.read() if one["code"] == kept.code}

    def of(self, name: str, make: Callable[[], Json]) -> Json:
        """The result of a part, as it was kept or made now."""
        if name not in self.done:
            self.done[name] = self.kept.add({"part": name, "result": make()})["result"]
        found: Json = self.done[name]
        return found


def code_of(*folders: str) -> str:
    """Digest of the Python files of folders of this checkout."""
    read = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        read.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return read.hexdigest()[:12]


def codes(done: Iterable[Json]) -> list[str]:
    """The digests of what made them: more than one means that the code changed in between."""
    return sorted({one["code"] for one in done})


def add_seed(parser: argparse.ArgumentParser) -> None:
    """The option --seed; a new one without it."""
    parser.add_argument("--seed", type=int, default=random.randrange(SEED_MAX))


class Stop:
    """Ctrl-C and SIGTERM, heard at the next `interrupt`: raised in a callback of an event loop, as
    they come, they would be lost there."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt when somebody has asked to stop."""
        if self.asked:
            raise KeyboardInterrupt
