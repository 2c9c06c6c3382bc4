"""What people and programs see: progress on stderr, data on stdout.

`text`: lines for people. `json`: one object at the end. `ndjson`: one object an event.
Under GitHub Actions errors and warnings are annotations too.

A reader that goes away, or a full disk behind it, stops no work: from then on the stream leads
nowhere. Only data that nobody could have read otherwise is missed: see `Console.result`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opsctl.errors import OpsctlError
    from opsctl.model import Json
    from opsctl.redact import Redactor

Format = Literal["text", "json", "ndjson"]

REDRAW_S = 0.2
"""How often the live line of a terminal moves."""


ANNOTATED_OTHERWISE = ("error", "differences")
"""Outcomes with an exit code that are annotated already, or are no failure."""


NO = ("", "0", "false")
"""Values of a variable of the environment that stand for no."""


class Console:
    """Where events go. `redact` is applied to every text that leaves."""

    def __init__(
        self, output: Format = "text", *, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.output = output
        # Python has None for a stream that was closed before it began.
        self.out: TextIO = out or sys.stdout or io.StringIO()
        self.err: TextIO = err or sys.stderr or io.StringIO()
        self.redact: Redactor | None = None
        self.github = os.environ.get("GITHUB_ACTIONS", "").lower() not in NO
        self.warnings: list[str] = []
        """All warnings so far, for the report."""
        self._live: _LiveLine | None = None
        self._lost_data: OSError | None = None
        """Why an event could not be written, so that the result says it."""

    def tell(self, text: str) -> None:
        """One line of progress."""
        self.event("progress", text)

    def event(self, kind: str, text: str = "", **fields: Any) -> None:
        """Something happened: `text` for people, `fields` for programs."""
        text = self.clean(text)
        if self.output == "ndjson":
            happened = {"event": kind, "time": time.time(), "text": text, **fields}
            self._lost_data = self._lost_data or self._quietly(self.out, self._encoded(happened))
        elif text:
            self._line(text)

    def step(self, title: str, position: str, expected_s: float | None) -> None:
        """A step begins; on a terminal a live line shows elapsed and expected time."""
        title = self.clean(title)
        self.event("step_began", "" if self._is_live else f"{position} {title}", title=title)
        if self._is_live:
            self._live = _LiveLine(self._progress, f"{position} {title}", expected_s)

    def step_done(self, title: str, position: str, elapsed_s: float, note: str = "") -> None:
        """The step ended; `note` says how when it isn't simply good."""
        self._stop_live()
        mark = f"{position} {self.clean(title)}: {note or 'ok'} ({elapsed_s:.1f} s)"
        self.event("step_ended", mark, title=title, elapsed_s=round(elapsed_s, 3), note=note)

    def line(self, text: str) -> None:
        """One line of data (a log line). Raises OSError when nobody reads on, or none can."""
        if self.output == "ndjson":
            text = self._encoded({"event": "line", "text": text})
        print(self.clean(text), file=self.out, flush=True)

    def warn(self, text: str) -> None:
        """A warning."""
        self.warnings.append(text)
        self._annotate("warning", text)
        self.event("warning", f"warning: {text}")

    def error(self, error: OpsctlError) -> None:
        """An error: what, why, next step."""
        self._stop_live()
        places = getattr(error, "problems", ())
        for problem in places:
            where = f" file={problem.file},line={problem.line},"
            self._annotate("error", f"{problem.key}: {problem.what}", where)
        if not places:
            self._annotate("error", str(error))
        if self.output != "ndjson":
            self._line(f"error: {self.clean(str(error))}")

    def result(self, data: Mapping[str, Any], text: str) -> None:
        """The outcome: `text` on stdout for people, the object for programs.

        Raises OSError when it can't be written; BrokenPipeError when its reader has gone.
        """
        self._stop_live()
        # A rollout that was refused ended in order, and yet it failed the job that began it.
        if data.get("exit_code") and data["outcome"] not in ANNOTATED_OTHERWISE:
            self._annotate("error", text)
        if self.output == "text":
            text = self.clean(text)
        elif self.output == "json":
            text = self._encoded(data, indent=2)
        else:
            text = self._encoded({"event": "result", **data})
        if not text:
            return
        error = self._lost_data or self._quietly(self.out, text)
        if error:
            raise error

    def clean_json(self, data: Json) -> Json:
        """`data` without secrets."""
        cleaned: Json = self.redact.json(data) if self.redact else data
        return cleaned

    @property
    def _is_live(self) -> bool:
        return self.output == "text" and self.err.isatty() and not self.github

    def _stop_live(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def _line(self, text: str) -> None:
        if self._live:
            self._live.clear()
        self._quietly(self.err, text)

    def _annotate(self, level: str, text: str, where: str = " ") -> None:
        if self.github:
            safe = self.clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            self._quietly(self.err, f"::{level}{where}title=opsctl::{safe}")

    def _encoded(self, data: Mapping[str, Any], indent: int | None = None) -> str:
        return json.dumps(self.clean_json(dict(data)), indent=indent, default=str)

    def _progress(self, text: str) -> None:
        self._quietly(self.err, text, end="")

    @staticmethod
    def _quietly(stream: TextIO, text: str, end: str = "\n") -> OSError | None:
        """Write, or give back why that was not possible, after which nothing is written there."""
        try:
            print(text, file=stream, end=end, flush=True)
        except OSError as error:
            _lead_nowhere(stream)
            return error
        return None

    def clean(self, text: str) -> str:
        """`text` without secrets."""
        return self.redact.text(text) if self.redact else text


def _lead_nowhere(stream: TextIO) -> None:
    """Whatever is written from now on is gone, with what could not be written so far."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _LiveLine:
    """One line of a terminal that shows what runs, for how long, and about how long still."""

    def __init__(self, write: Callable[[str], None], text: str, expected_s: float | None) -> None:
        self._write = write
        self._text = text
        self._expected_s = expected_s
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.clear()

    def clear(self) -> None:
        self._write("\r\x1b[K")

    def _run(self) -> None:
        while not self._stop.wait(REDRAW_S):
            self._write(f"\r\x1b[K{self._text} … {self._times()}")

    def _times(self) -> str:
        elapsed = time.monotonic() - self._began
        if self._expected_s is None:
            return f"{elapsed:.0f} s"
        left = max(0.0, self._expected_s - elapsed)
        return f"{elapsed:.0f} s, about {left:.0f} s left"
