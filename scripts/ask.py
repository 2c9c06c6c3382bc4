"""A user of the sample service: asks through the front door until it is told to stop.

ask.py URL REQUESTS_FILE [RATE_PER_S]     SIGTERM ends it; the last line is a JSON summary
"""

from __future__ import annotations

import collections
import http.client
import itertools
import json
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PATH = "/v1/models/anomaly:predict"


class Stop(Exception):
    """SIGTERM arrived."""


def ask(url: str, requests_file: Path, rate_per_s: float) -> dict[str, object]:
    """Ask one window at a time at a fixed rate; what came back, by release."""
    windows = itertools.cycle(requests_file.read_text().splitlines())
    answered: collections.Counter[str] = collections.Counter()
    failed: list[str] = []
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        for count in itertools.count():
            began = time.monotonic()
            body = f'{{"instances": [{next(windows)}]}}'
            try:
                connection.request("POST", PATH, body)
                answer = connection.getresponse()
                json.loads(answer.read())["predictions"]
                answered[answer.headers.get("X-Opsctl-Release", "?")] += 1
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                failed.append(f"request {count}: {type(error).__name__}: {error}")
                connection.close()
            time.sleep(max(0.0, 1 / rate_per_s - (time.monotonic() - began)))
    except Stop:
        pass
    return {"answered": dict(answered), "failed": len(failed), "failures": failed[:5]}


def main() -> None:
    def stop(number: int, frame: object) -> None:
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    rate = float(sys.argv[3]) if len(sys.argv) > 3 else 20.0
    print(json.dumps(ask(sys.argv[1], Path(sys.argv[2]), rate)))


if __name__ == "__main__":
    main()
