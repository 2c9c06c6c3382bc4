"""A gate that runs elsewhere: what it is given as files, and what it says as JSON lines.

`python -m opsctl.bench.remote FOLDER` runs the gate of FOLDER (`files_of`) and prints one object a
line: `tell` (a sentence of progress), `rounds` (raw data so far, see `opsctl.bench.raw`), and at
the end `report`, or `error` with what was raised.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsctl.bench.report import GateRequest
from opsctl.config import settings
from opsctl.errors import ConfigError, GateUndecided, OpsctlError, TargetUnreachable
from opsctl.model import Endpoint, Json

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = "opsctl.yaml"
REQUEST = "request.json"
BODIES = "requests.jsonl"
SERVICE = "measured"
SEND_S = 1.0
"""How much raw data may be lost with the machine that measures."""

RAISED: Mapping[str, type[OpsctlError]] = {
    error.__name__: error for error in (ConfigError, TargetUnreachable)
}
"""Errors that come out here as they were raised there; others say that nothing was measured."""


def files_of(request: GateRequest) -> dict[str, bytes]:
    """What the other machine needs, by name. Raises ConfigError for unreadable request bodies."""
    bench, bodies = request.bench, {}
    if bench.requests_file is not None:
        path = request.root / bench.requests_file
        try:
            bodies[BODIES] = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read bench.requests_file {path}", why=error.strerror or str(error)
            ) from error
        bench = replace(bench, requests_file=BODIES)
    service = {
        "app": {"directory": ".", "command": ["measured"]},
        "bench": _given(bench),
        "gate": _given(request.gate),
    }
    arms = {"baseline": request.baseline, "candidate": request.candidate}
    asked = {
        "seed": request.seed,
        "arms": {name: arm and dict(arm.__dict__) for name, arm in arms.items()},
    }
    document = {"services": {SERVICE: service}, "environments": {"there": {"target": "local"}}}
    return {CONFIG: json.dumps(document).encode(), REQUEST: json.dumps(asked).encode(), **bodies}


def _given(section: Any) -> Json:
    """A section as opsctl.yaml has it (JSON is YAML too): what goes without saying may not always
    be said."""
    unsaid = {one.name: one.default for one in fields(section)}
    return {name: value for name, value in asdict(section).items() if value != unsaid[name]}


def request_in(folder: Path) -> GateRequest:
    """The request that `files_of` wrote there. Raises ConfigError."""
    from opsctl.config.load import load

    project = load(folder / CONFIG, environment="there", service=SERVICE)
    asked = json.loads((folder / REQUEST).read_text())
    arms = {name: arm and Endpoint(**arm) for name, arm in asked["arms"].items()}
    bench = project.service.bench
    assert bench is not None
    return GateRequest(
        baseline=arms["baseline"],
        candidate=arms["candidate"],
        bench=bench,
        gate=project.service.gate,
        root=folder,
        seed=asked["seed"],
    )


def fits(gate: settings.Gate) -> bool:
    """Whether a gate can run elsewhere: queries of Prometheus need files and secrets of here."""
    return gate.prometheus is None


class Heard:
    """What was said elsewhere, taken line by line."""

    def __init__(self, request: GateRequest, tell: Callable[[str], None]) -> None:
        self._path = request.progress_path
        self._tell = tell
        self.report: Json | None = None
        self.other: list[str] = []
        """Lines that are none of ours: what a program says that breaks."""

    def take(self, lines: Iterable[str]) -> None:
        """Raises what was raised there."""
        for line in lines:
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            said = json.loads(line)
            kind, value = said["kind"], said["value"]
        except (ValueError, KeyError, TypeError):
            self.other = [*self.other, line][-20:]
            return
        if kind == "tell":
            self._tell(str(value))
        elif kind == "rounds" and self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as output:
                output.write(value)
        elif kind == "report":
            self.report = value
        elif kind == "error":
            raised = RAISED.get(value["type"], GateUndecided)
            raise raised(value["what"], why=value["why"], next_step=value["next_step"])


def run(folder: Path) -> int:
    """Run the gate of a folder and say what comes of it; the exit code."""
    from opsctl.bench.run import run_gate

    try:
        request = request_in(folder)
        with tempfile.TemporaryDirectory() as here, _rounds(Path(here) / "rounds") as path:
            request = replace(request, progress_path=path)
            report = run_gate(request, tell=_teller, interrupt=lambda: None)
        _say("report", report.to_dict())
    except OpsctlError as error:
        _say("error", error.to_dict())
        return error.exit_code
    return 0


@contextmanager
def _rounds(path: Path) -> Iterator[Path]:
    """Say what is written to `path` while a block runs."""
    done = threading.Event()

    def follow() -> None:
        offset = 0
        while True:
            ended = done.wait(SEND_S)
            if path.exists():
                with path.open() as lines:
                    lines.seek(offset)
                    text = lines.read()
                    offset = lines.tell()
                if text:
                    _say("rounds", text)
            if ended:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield path
    finally:
        done.set()
        thread.join()


_SAYING = threading.Lock()


def _say(kind: str, value: object) -> None:
    with _SAYING:
        print(json.dumps({"kind": kind, "value": value}), flush=True)


def _teller(text: str) -> None:
    _say("tell", text)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
