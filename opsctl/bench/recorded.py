"""Requests of real users as a file that `bench.requests_file` replays, with fields redacted.

The file holds one item a line. Bodies `{"instances": […]}` are taken apart, an instance a line, so
that batches of any size can be cut from them; other JSON bodies are kept whole, each as
`{"recorded_body": …}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opsctl.errors import ConfigError
from opsctl.model import Json

WHOLE = "recorded_body"
"""The one key of a line that holds a whole body."""

EVERY = "*"

MASK = "***"

FILE_MODE = 0o600
"""Redaction is as good as its list: what users sent is for the owner's eyes."""

LOG_FIELDS = 5

HTTP_OK = range(200, 300)


@dataclass(frozen=True)
class Heard:
    """One request as the load balancer told of it. `size` is the body's length there: a body of
    another length was cut on its way."""

    method: str
    path: str
    status: int
    size: int
    body: bytes


def heard_in(log_line: bytes) -> Heard | None:
    """The request that a log line of the load balancer tells of (its format stands in
    haproxy.cfg.j2); None for anything else.

    The fields behind these are for people who read haproxy.log. A path that was not kept is that
    of a failed request which nobody wanted.
    """
    parts = log_line.rstrip(b"\n").split(b" ")[:LOG_FIELDS]
    if len(parts) != LOG_FIELDS or parts[1] == b"-":
        return None
    method, path, status, size, body = parts
    try:
        return Heard(
            method.decode("ascii"),
            _decoded(path).decode("utf-8", "surrogateescape"),
            int(status),
            int(size),
            _decoded(body),
        )
    except (ValueError, binascii.Error):
        return None


def _decoded(text: bytes) -> bytes:
    """From base64, also when its end was cut off; `-` is HAProxy's word for nothing."""
    if text == b"-":
        return b""
    return base64.b64decode(text[: len(text) // 4 * 4])


@dataclass(frozen=True)
class Wanted:
    """Which requests are recorded, what of them is hidden, and how many are enough."""

    method: str
    path: str
    redact: tuple[tuple[str, ...], ...] = ()
    count: int = 1000
    max_bytes: int = 64 * 2**20
    clean: Callable[[Any], Any] = lambda value: value
    """Takes known secrets out of a JSON value."""


def paths_of(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Dotted paths as their parts. Raises ConfigError for one without a name."""
    for text in texts:
        if not text or not all(text.split(".")):
            raise ConfigError(
                f"{text!r} is no path to redact",
                next_step="Write it dotted from the body on: instances.*.user",
            )
    return tuple(tuple(text.split(".")) for text in texts)


def redacted(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    """The value with everything at these paths blank: texts `***`, numbers 0, false; lists and maps
    keep their form, so that a service still takes the request."""
    here = [path for path in paths if path]
    if any(not path for path in paths):
        return _blank(value)
    if isinstance(value, dict):
        return {key: redacted(item, _below(here, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, _below(here, str(place))) for place, item in enumerate(value)]
    return value


def _below(paths: Sequence[tuple[str, ...]], name: str) -> list[tuple[str, ...]]:
    return [path[1:] for path in paths if path[0] in (EVERY, name)]


def _blank(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    if isinstance(value, str):
        return MASK
    return value if value is None else type(value)(0)


@dataclass
class Recording:
    """Takes requests in, and writes those that are wanted to `output`."""

    wanted: Wanted
    output: IO[str]
    kept: int = 0
    lines: int = 0
    size_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Requests that were left out, by why."""
    form: str = ""

    @property
    def full(self) -> bool:
        return self.kept >= self.wanted.count or self.size_bytes >= self.wanted.max_bytes

    def take(self, heard: Heard) -> None:
        """Write a request, or count why not."""
        why = self._unwanted(heard)
        items: list[Any] = []
        if not why:
            why, items = self._items(heard.body)
        if why:
            self.skipped[why] += 1
            return
        self.kept += 1
        for item in items:
            line = json.dumps(item, separators=(",", ":"), ensure_ascii=False)
            self.output.write(line + "\n")
            self.lines += 1
            self.size_bytes += len(line.encode("utf-8", "surrogatepass")) + 1

    def _unwanted(self, heard: Heard) -> str:
        if (heard.method, heard.path) != (self.wanted.method, self.wanted.path):
            return "another path or method"
        if heard.status not in HTTP_OK:
            return "not answered with 2xx"
        if heard.size != len(heard.body):
            return "too long to be passed on"
        return "" if heard.body else "without a body"

    def _items(self, body: bytes) -> tuple[str, list[Any]]:
        """Why not, or the lines' values."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return "no JSON", []
        value = self.wanted.clean(redacted(value, self.wanted.redact))
        instances = value.get("instances") if isinstance(value, dict) else None
        form = "instances" if isinstance(instances, list) and len(value) == 1 else WHOLE
        self.form = self.form or form
        if form != self.form:
            return f"not of the first one's form ({self.form})", []
        if form == WHOLE:
            return "", [{WHOLE: value}]
        return "" if instances else "without instances", list(instances or ())

    def report(self) -> Json:
        """What was recorded, and what was left out."""
        return {
            "requests": self.kept,
            "lines": self.lines,
            "bytes": self.size_bytes,
            "form": self.form or None,
            "left_out": dict(self.skipped),
        }


def open_new(path: Path) -> IO[str]:
    """A new file for its owner alone. Raises ConfigError when it exists or can't be made."""
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except OSError as error:
        raise ConfigError(
            f"cannot record to {path}",
            why=error.strerror or str(error),
            next_step="Name a new file in a folder that exists.",
        ) from error
    return os.fdopen(made, "w", encoding="utf-8", errors="surrogatepass")
