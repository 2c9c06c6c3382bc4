"""Commands that are run to their end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl import shell


def command_lines() -> Iterator[str]:
    """Of all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def test_a_command_that_floods_its_output_is_ended_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell, "OUTPUT_LIMIT_BYTES", 2**20)
    done = shell.run(["yes"], timeout_s=120)
    assert (done.ok, done.timed_out) == (False, False)
    assert done.why.endswith("ended: it wrote more than 1 MiB")


def test_the_end_of_a_long_output_is_kept() -> None:
    done = shell.run(["seq", "100000"], timeout_s=60)
    assert done.ok
    assert done.stdout.endswith("\n99999\n100000\n")
    assert len(done.stdout) == shell.OUTPUT_MAX_BYTES


def test_a_command_over_its_time_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"(sleep 100; touch {tmp_path}/late) & sleep 100"
    done = shell.run(["sh", "-c", script], timeout_s=0.2)
    assert (done.ok, done.timed_out) == (False, True)
    assert [line for line in command_lines() if f"{tmp_path}/late" in line] == []


def test_what_cannot_be_started_is_told() -> None:
    done = shell.run(["/no/such/program"], timeout_s=1)
    assert (done.exit_code, done.stderr) == (
        127, "cannot start /no/such/program: No such file or directory"
    )  # fmt: skip
