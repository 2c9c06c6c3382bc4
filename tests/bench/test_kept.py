"""Long benchmarks that are stopped go on where they were, and never with what other code made."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.processes import wait_until
from tests.bench.kept import BUILD, Kept, Parts, code_of, codes
from tests.bench.server import ROOT

LIMIT_S = 240.0


def test_what_is_kept_is_read_again_and_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a" / "b.jsonl", "code-1")
    assert kept.read() == []
    first, second = kept.add({"run": 0}), kept.add({"run": 1})
    with kept.path.open("a") as output:
        output.write('{"run": 2, "out')
    assert kept.read() == [first, second] == [{"run": n, "code": "code-1"} for n in (0, 1)]
    third = Kept(kept.path, "code-2").add({"run": 2})
    assert kept.read() == [first, second, third]
    assert codes(kept.read()) == ["code-1", "code-2"]


def test_a_part_is_made_once_for_each_state_of_the_code(tmp_path: Path) -> None:
    made: list[str] = []

    def value(code: str) -> object:
        def make() -> dict[str, str]:
            made.append(code)
            return {"made by": code}

        return Parts(Kept(tmp_path / "parts.jsonl", code)).of("row", make)

    assert [value("a"), value("a"), value("b"), value("b"), value("a")] == [
        {"made by": code} for code in ("a", "a", "b", "b", "a")
    ]
    assert made == ["a", "b"]


def test_the_code_is_known_by_the_content_of_its_files() -> None:
    assert code_of("opsctl/bench") == code_of("opsctl/bench")
    assert code_of("opsctl/bench") != code_of("opsctl/bench", "opsctl/config")


def bench(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.bench.simulator", *arguments]
    return subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_simulated_gate_that_is_stopped_makes_no_row_twice(
    seed: int, number: signal.Signals
) -> None:
    path = BUILD / "gate" / f"{seed + number}-quick.jsonl"
    path.unlink(missing_ok=True)
    asked = ("gate", "--quick", "--seed", str(seed + number), "--only", "slices", "--jobs", "1")
    stopped = bench(*asked)
    try:
        wait_until(lambda: path.exists() and "\n" in path.read_text(), "a row ended", LIMIT_S)
        stopped.send_signal(number)
        said = stopped.communicate(timeout=LIMIT_S)[1]
    finally:
        stopped.kill()
        stopped.wait()
    rows = path.read_text().splitlines()
    wanted = f"go on with: scripts/bench gate --seed {seed + number} --jobs 1 --quick --only slices"
    assert number == signal.SIGKILL or said.endswith(f"stopped; {wanted}\n"), said
    again = bench(*asked)
    assert again.communicate(timeout=LIMIT_S)[1] and again.returncode == 0
    done = path.read_text().splitlines()
    assert done[: len(rows)] == rows
    assert [json.loads(line)["part"] for line in done] == [
        "slices on a shared device at 0.3, p50 +5 %", "slices on a shared device at 0.3, A/A",
    ]  # fmt: skip
    path.unlink()


def test_a_server_ends_with_the_process_that_started_it() -> None:
    program = (
        "import os, sys\n"
        "from tests.bench.server import Behaviour, running\n"
        "with running(Behaviour()) as served:\n"
        "    print(served.process.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None and parent.stdin is not None
    child = int(parent.stdout.readline())
    assert b"tests.bench.server" in command_of(child)
    parent.kill()
    parent.communicate()
    wait_until(lambda: command_of(child) == b"", "the server ended", LIMIT_S)


def command_of(pid: int) -> bytes:
    """Command line of a process; empty when it has ended, whether or not it is reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
