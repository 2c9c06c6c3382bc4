"""Copies of the real sample service, as equal or slower arms of a gate."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from opsctl.model import Endpoint
from tests.apps.anomaly import train
from tests.bench.server import ROOT, TIED, Served

READY = re.compile(r"REST http://([^:/]+):([0-9]+), health http://[^:/]+:([0-9]+)")
START_LIMIT_S = 120.0

SERVING = ROOT / "images" / "serving"


def trained_model() -> Path:
    """The sample model of this checkout; trained once, which takes a minute."""
    train(ROOT / "build" / "models", "normal")
    return ROOT / "build" / "models" / "normal"


@contextmanager
def serving(model: Path, slower: float, cpus: tuple[int, ...], *more: str) -> Iterator[Served]:
    """A process of the sample service on these CPUs; `slower` is the share that each prediction
    takes longer, `more` are its options besides. It is gone afterwards."""
    program = ("tests.bench.slowed", str(slower)) if slower else ("ascend_serving",)
    argv = [sys.executable, "-m", *program, "serve", "--model-path", str(model), "--port", "0",
            "--health-port", "0", "--threads", "1", *more]  # fmt: skip
    path = os.pathsep.join([str(ROOT), str(SERVING)])
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}
    pinned = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    process = subprocess.Popen(
        [*TIED, *pinned, *argv], env=environment, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        host, port, health_port = _ready(process)
        yield Served(Endpoint(host, int(port), int(health_port)), process)
    finally:
        process.kill()
        process.wait()


def _discard(stream: IO[str]) -> None:
    with stream:
        for _ in stream:
            pass


def _ready(process: subprocess.Popen[str]) -> tuple[str, ...]:
    """Host, port and health port, as the service tells them once its model is loaded."""
    assert process.stderr is not None
    killer = threading.Timer(START_LIMIT_S, process.kill)
    killer.start()
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if found := READY.search(line):
                # What it says later must not fill the pipe.
                threading.Thread(target=_discard, args=(process.stderr,), daemon=True).start()
                return found.groups()
    finally:
        killer.cancel()
    raise RuntimeError("the sample service does not start:\n" + "".join(said[-20:]))
