"""Recordings of users' requests: redaction, limits, and their replay."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from opsctl.bench.bodies import load_bodies
from opsctl.bench.recorded import (
    Heard,
    Recording,
    Wanted,
    heard_in,
    open_new,
    paths_of,
    redacted,
)
from opsctl.config.settings import Bench
from opsctl.errors import ConfigError
from opsctl.redact import Redactor

PATH = "/v1/models/m:predict"


def heard(value: Any, **changes: Any) -> Heard:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    given = {"method": "POST", "path": PATH, "status": 200, "size": len(body), "body": body}
    return Heard(**{**given, **changes})


def recorded(*requests: Heard, **wanted: Any) -> tuple[Recording, list[Any]]:
    output = io.StringIO()
    recording = Recording(Wanted("POST", PATH, **wanted), output)
    for request in requests:
        recording.take(request)
    return recording, [json.loads(line) for line in output.getvalue().splitlines()]


def test_redaction_blanks_what_is_named_and_keeps_types_and_forms() -> None:
    value = {
        "instances": [
            {"user": "Ann", "age": 41, "rate": 0.5, "member": True, "none": None, "x": [1, 2]},
            {"user": {"first": "Bob", "ids": [7, "8"]}, "age": 42},
        ],
        "key": "k",
    }
    paths = paths_of(["instances.*.user", "instances.0.x.1", "key", "instances.1.age", "absent.y"])
    assert redacted(value, paths) == {
        "instances": [
            {"user": "***", "age": 41, "rate": 0.5, "member": True, "none": None, "x": [1, 0]},
            {"user": {"first": "***", "ids": [0, "***"]}, "age": 0},
        ],
        "key": "***",
    }
    whole = redacted(value, paths_of(["instances.0"]))
    assert whole["instances"][0] == {
        "user": "***", "age": 0, "rate": 0.0, "member": False, "none": None, "x": [0, 0],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["", ".", "a..b", "a."])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is no path to redact"):
        paths_of([path])


def test_what_is_not_wanted_is_counted_by_why() -> None:
    recording, lines = recorded(
        heard({"instances": [1]}),
        heard({"instances": [2]}, method="GET"),
        heard({"instances": [2]}, path="/other"),
        heard({"instances": [2]}, status=503),
        heard({"instances": [2]}, size=99),
        heard(b""),
        heard(b"no json"),
        heard({"instances": []}),
        heard({"inputs": [2]}),
    )
    assert lines == [1]
    assert recording.report()["left_out"] == {
        "another path or method": 2,
        "not answered with 2xx": 1,
        "too long to be passed on": 1,
        "without a body": 1,
        "no JSON": 1,
        "without instances": 1,
        "not of the first one's form (instances)": 1,
    }


def test_known_secrets_are_taken_out_of_what_is_recorded() -> None:
    clean = Redactor({"TOKEN": "swordfish"}).json
    _, lines = recorded(heard({"instances": ["a swordfish!"]}), clean=clean)
    assert lines == ["a ***!"]


def test_recordings_end_at_their_count_and_their_size() -> None:
    recording, _ = recorded(heard({"instances": [1, 2]}), count=1)
    assert recording.full
    recording, _ = recorded(heard({"instances": ["x" * 40]}), max_bytes=43)
    assert recording.full and recording.size_bytes == 43


def test_whole_bodies_are_replayed_as_they_were_with_batch_size_one(tmp_path: Path) -> None:
    bodies = [{"inputs": {"a": [1]}}, {"inputs": {"a": [2]}, "signature_name": "s"}]
    file = tmp_path / "whole.jsonl"
    with open_new(file) as output:
        recording = Recording(Wanted("POST", PATH), output)
        for body in bodies:
            recording.take(heard(body))
    assert recording.report()["form"] == "recorded_body"
    bench = Bench(path=PATH, requests_file=file.name, batch_sizes=(1,))
    loaded = load_bodies(bench, tmp_path)
    assert [json.loads(body) for body in loaded.by_size[1]] == bodies
    with pytest.raises(ConfigError, match="holds whole bodies"):
        load_bodies(Bench(path=PATH, requests_file=file.name), tmp_path)


def test_a_recording_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    with pytest.raises(ConfigError, match="File exists"):
        open_new(tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.parametrize(
    ("datagram", "found"),
    [
        (b"POST L3g= 200 3 YmFk\n", Heard("POST", "/x", 200, 3, b"bad")),
        (b"POST L3g= 200 3000 YmFkY\n", Heard("POST", "/x", 200, 3000, b"bad")),
        (b"GET L3g= 200 0 -\n", Heard("GET", "/x", 200, 0, b"")),
        (b"<BADREQ> - 400 - -\n", None),
        (b"POST L3g= -1 3 YmFk\n", Heard("POST", "/x", -1, 3, b"bad")),
        (
            # As HAProxy 2.6.12 writes it: fields for people stand behind.
            b"POST L3g= 503 25 - 127.0.0.1:98 [30/Nov/2026:13:00:41.936] svc/a 0/0/0/6 ---- 0 /\n",
            Heard("POST", "/x", 503, 25, b""),
        ),
        (
            b"POST - 503 - - 127.0.0.1:60774 [30/Nov/2026:12:59:56.256] svc/a 0/0/0/23 ---- 0 /x\n",
            None,
        ),
        (b"Proxy front stopped", None),
        (b"", None),
    ],
)
def test_log_lines_of_the_balancer_are_read_and_others_passed_over(
    datagram: bytes, found: Heard | None
) -> None:
    assert heard_in(datagram) == found
