"""Runs a command under msprof, and times it outside of it, as a profiler slows what it watches."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ascend_ops.errors import ConversionError, InvalidInputError

ITERATIONS: Final = "{iterations}"
TOOLKIT_VARIABLES: Final = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")


@dataclass(frozen=True)
class Outside:
    """Wall-clock times without the profiler, in seconds: of one iteration each."""

    seconds: tuple[float, ...]
    iterations: int


def find_msprof(given: str | None) -> str:
    """The path of msprof: the given one, in the search path, or in the CANN toolkit's folders."""
    homes = [os.environ[name] for name in TOOLKIT_VARIABLES if os.environ.get(name)]
    folders = [os.path.join(home, part) for home in homes for part in ("bin", "tools/profiler/bin")]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    found = shutil.which(given or "msprof", path=search)
    if found is None:
        raise ConversionError(
            f"there is no {given or 'msprof'}: it comes with the CANN toolkit. Install that, run "
            "its set_env.sh, or name it: --msprof PATH"
        )
    return found


def run_outside(command: Sequence[str], iterations: int) -> Outside:
    """Times the command without a profiler.

    A command with `{iterations}` in it repeats itself, is run once, and its time is divided;
    another is run `iterations` times. InvalidInputError when it cannot be started or fails.
    """
    own = any(ITERATIONS in word for word in command)
    words = fill(command, iterations)
    runs = 1 if own else iterations
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        _check(words)
        seconds.append((time.perf_counter() - start) / (iterations if own else 1))
    return Outside(tuple(seconds), iterations)


def fill(command: Sequence[str], iterations: int) -> list[str]:
    """The command with the number in place of `{iterations}`."""
    return [word.replace(ITERATIONS, str(iterations)) for word in command]


def _check(words: Sequence[str]) -> None:
    try:
        done = subprocess.run(words, stdout=sys.stderr, check=False)
    except OSError as error:
        raise InvalidInputError(
            f"cannot start {words[0]}: {error.strerror}. Name a program: -- COMMAND"
        ) from error
    if done.returncode:
        raise InvalidInputError(
            f"{shlex.join(words)} ended with exit code {done.returncode} without a profiler. "
            "Make it run alone first"
        )


def make_folder(directory: Path) -> None:
    """Makes the folder for msprof's files; InvalidInputError where that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"cannot make the folder {directory}: {error.strerror}. Choose another --directory"
        ) from error


def run_under_msprof(msprof: str, command: Sequence[str], directory: Path) -> None:
    """Runs the command once under msprof, whose files go into the folder, and exports them.

    ConversionError with msprof's last words when it fails.
    """
    before = set(directory.glob("PROF_*"))
    _msprof(
        [
            msprof,
            f"--output={directory}",
            "--ai-core=on",
            "--aic-metrics=PipeUtilization",
            f"--application={shlex.join(command)}",
        ]
    )
    made = sorted(set(directory.glob("PROF_*")) - before)
    if not made:
        raise ConversionError(f"{msprof} ended well and wrote no PROF folder into {directory}")
    for folder in made:
        if not list(folder.rglob("op_summary*.csv")):
            _msprof([msprof, "--export=on", f"--output={folder}"])


def _msprof(words: list[str]) -> None:
    last = ""
    try:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", file=sys.stderr, flush=True)
                last = line.strip() or last
    except OSError as error:
        raise ConversionError(
            f"cannot start {words[0]}: {error.strerror}. Name CANN's: --msprof PATH"
        ) from error
    if process.returncode:
        raise ConversionError(
            f"{words[0]} failed (exit code {process.returncode}): "
            f"{last.rstrip('.') or 'it said nothing'}. Check that the device is "
            "visible (npu-smi info), and that the command runs alone"
        )
