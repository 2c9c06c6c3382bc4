"""What happened to replicas and balancer, one JSON line each, for people and reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Tell = Callable[[str, str], None]
"""Takes the release ("" for the service as a whole) and one plain sentence."""


class EventLog:
    """Appends events to a file; a full disk costs the line, never the work."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, release: str, text: str) -> None:
        """Note one event."""
        line = json.dumps({"time": round(time.time(), 3), "release": release, "text": text})
        try:
            with self._path.open("a") as output:
                output.write(line + "\n")
        except OSError as error:
            print(f"{line} (not kept: {error.strerror})", file=sys.stderr, flush=True)


def read(path: Path, release: str) -> list[str]:
    """Events of a release and of the service as a whole, oldest first: `TIME text`."""
    found = []
    for file in (path.with_name(path.name + ".1"), path):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # torn by a full disk or a kill
            if event["release"] in ("", release):
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["time"]))
                found.append(f"{stamp} {event['text']}")
    return found
