"""`python -m ascend_ops.kernels new|build|test|bench`: a user's own operators, bundled like ours.

Called by `opsctl kernels`. The operators are the folders that are named; without a name the
working folder when it is one, or the operator folders in it.
"""

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ascend_ops import cycles
from ascend_ops.build_record import read_build_record
from ascend_ops.errors import AscendOpsError, BuildError, InvalidInputError
from ascend_ops.operator_build import NPU_ARCHS, SOURCE, BuildSettings, Built, build
from ascend_ops.operator_folder import find_operators, write_operator
from ascend_ops.tool import Answer, answer

TREE: Final = Path(".opsctl/kernels")
SPEEDUP_MIN: Final = 4.8  # the field's figures for a vectorised, double-buffered kernel
VECTOR_SAVING_MIN: Final = 0.68
TEST_FAILED: Final = 13
FIGURE_MISSED: Final = 14


def new(a: argparse.Namespace) -> Answer:
    """Writes the folder of an operator."""
    files = write_operator(a.name, a.directory, read_build_record().operators)
    lines = [f"wrote {path}" for path in files]
    text = "\n".join([*lines, f"next: opsctl kernels test {a.directory / a.name}"])
    return Answer("written", text, {"files": [str(path) for path in files]})


def _build(a: argparse.Namespace) -> tuple[Built, tuple[str, ...]]:
    operators = tuple(find_operators(a.folders, Path.cwd()))
    tree = a.build_dir.resolve()
    settings = BuildSettings(
        operators=operators,
        tree=tree / f"{a.npu_arch}-{a.tensorflow.lower()}",
        output=(a.install or tree).resolve(),
        source=a.source.resolve(),
        tensorflow=a.tensorflow.upper(),
        npu_arch=a.npu_arch,
    )
    return build(settings), tuple(path.name for path in operators)


def build_library(a: argparse.Namespace) -> Answer:
    """Builds the whole library with the user's operators into a package."""
    built, own = _build(a)
    record = built.record
    text = (
        f"built {built.package} in {built.seconds:.1f} s: {', '.join(record.operators)}\n"
        f"own operators: {', '.join(own) or 'none'} · TensorFlow "
        f"{record.tensorflow_version or 'left out'} · SoC family {record.npu_arch}\n"
        f"use it: PYTHONPATH={built.package.parent}"
    )
    data = {
        "package": str(built.package),
        "operators": list(record.operators),
        "own_operators": list(own),
        "tensorflow_version": record.tensorflow_version,
        "seconds": built.seconds,
    }
    return Answer("built", text, data)


def _python(
    built: Built, arguments: list[str], **settings: Any
) -> "subprocess.CompletedProcess[str]":
    """Runs this interpreter with the built package in place of the installed one."""
    environment = os.environ | {"PYTHONPATH": str(built.package.parent)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, text=True, check=False, **settings)


def _rows(built: Built, module: str, arguments: list[str]) -> list[dict[str, Any]]:
    done = _python(built, ["-m", f"ascend_ops.{module}", *arguments], capture_output=True)
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError as error:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise AscendOpsError(
            f"{module} could not run the operators in {built.package}: {reason[0]}"
        ) from error
    return rows


def test(a: argparse.Namespace) -> Answer:
    """Builds, checks each operator on its cases, and runs the tests in the folders."""
    built, own = _build(a)
    names = own or built.record.operators
    rows = _rows(built, "operator_check", list(names))
    lines = [_check_line(row) for row in rows]
    failed = [row for row in rows if not row["passed"]]
    tests = _run_folder_tests(built, a)
    lines += [tests["text"]] if tests["text"] else []
    passed = not failed and tests["exit_code"] == 0
    lines.append(f"{'passed' if passed else 'FAILED'}: {', '.join(names)}")
    data = {"operators": list(names), "rows": rows, "tests": tests, "seconds": built.seconds}
    outcome = "passed" if passed else "failed"
    return Answer(outcome, "\n".join(lines), data, 0 if passed else TEST_FAILED)


def _check_line(row: dict[str, Any]) -> str:
    verdict = "ok" if row["passed"] else f"FAILED at {row['worst_length']} elements"
    return (
        f"{row['operator']:24} {row['dtype']:9} {row['variant']:10} "
        f"{row['max_error_ulps']:6.2f} of {row['tolerance_ulps']:.0f} ulp  {verdict}"
        + (f": {row['message']}" if row["message"] else "")
    )


def _run_folder_tests(built: Built, a: argparse.Namespace) -> dict[str, Any]:
    """Runs the pytest files of the user's folders; exit code 0 when there are none."""
    folders = find_operators(a.folders, Path.cwd())
    files = [str(path) for folder in folders for path in sorted(folder.glob("test_*.py"))]
    if not files:
        return {"files": [], "exit_code": 0, "text": ""}
    if find_spec("pytest") is None:
        raise BuildError(
            f"{files[0]} is a test for pytest, which {sys.executable} has not. "
            "Install it: pip install pytest"
        )
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *files]
    done = _python(built, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = done.stdout.strip() if done.returncode else done.stdout.strip().splitlines()[-1]
    return {"files": files, "exit_code": done.returncode, "text": shown}


def bench(a: argparse.Namespace) -> Answer:
    """Times the user's operators, or those of the library; or compares kernels in cycles."""
    if a.cycles:
        return compare_cycles(a.sizes or [65536, 1048576, 4194304])
    built, own = _build(a)
    names = list(own) or ["sigmoid", "sigmoid_grad"]
    options = ["--runs", str(a.runs)]
    if a.sizes:
        options += ["--sizes", *map(str, a.sizes)]
    rows = _rows(built, "operator_bench", [*names, *options])
    header = (
        f"{'operator':24} {'type':9} {'elements':>9} {'median µs':>10} {'p95 µs':>10} "
        f"{'GB/s':>6} {'NPU cycles (estimate)':>22}"
    )
    lines = [
        f"{row['operator']:24} {row['dtype']:9} {row['elements']:9d} {row['median_us']:10.1f} "
        f"{row['p95_us']:10.1f} {row['bandwidth_gb_s']:6.1f} {row['estimated_cycles']:22.0f}"
        for row in rows
    ]
    return Answer("measured", "\n".join([header, *lines]), {"rows": rows})


def compare_cycles(sizes: list[int]) -> Answer:
    """The real sigmoid kernel against a naive one, in estimated cycles, and the field's figures."""
    rows = [cycles.compare(elements) for elements in sizes]
    header = (
        f"{'elements':>9} {'optimised':>10} {'naive':>10} {'speedup':>8} {'vector work':>12}"
        "   cycles, cpusim's estimate"
    )
    lines = [
        f"{row.elements:9d} {row.optimised.total:10.0f} {row.naive.total:10.0f} "
        f"{row.speedup:7.2f}× {-100 * row.vector_saving:+11.1f}%"
        for row in rows
    ]
    last = rows[-1]
    reached = last.speedup >= SPEEDUP_MIN and last.vector_saving >= VECTOR_SAVING_MIN
    lines.append(
        f"at {last.elements} elements {'reached' if reached else 'MISSED'}: "
        f"{SPEEDUP_MIN}× and −{100 * VECTOR_SAVING_MIN:.0f}% of vector work"
    )
    data = {
        "rows": [
            {"elements": r.elements, "speedup": r.speedup, "vector_saving": r.vector_saving}
            for r in rows
        ]
    }
    outcome = "reached" if reached else "missed"
    return Answer(outcome, "\n".join([header, *lines]), data, 0 if reached else FIGURE_MISSED)


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """What build, test and bench have in common."""
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--build-dir", type=Path, default=TREE, metavar="DIR")
    parser.add_argument("--install", type=Path, metavar="DIR")
    parser.add_argument("--source", type=Path, default=SOURCE, metavar="DIR")
    parser.add_argument("--tensorflow", choices=("auto", "on", "off"), default="off")
    parser.add_argument("--npu-arch", choices=NPU_ARCHS, default="2201")


def parse() -> argparse.Namespace:
    """The command line; opsctl's has the same options, with their help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    actions = parser.add_subparsers(dest="action", required=True)
    write = actions.add_parser("new")
    write.add_argument("name")
    write.add_argument("directory", nargs="?", type=Path, default=Path("."))
    for name in ("build", "test", "bench"):
        add_build_options(actions.add_parser(name))
    timed = actions.choices["bench"]
    timed.add_argument("--sizes", nargs="+", type=int)
    timed.add_argument("--runs", type=int, default=100)
    timed.add_argument("--cycles", action="store_true")
    actions.choices["build"].set_defaults(tensorflow="auto")
    return parser.parse_args()


def main() -> int:
    """One action; the exit code is opsctl's."""
    a = parse()
    if a.action == "bench" and (a.runs < 1 or min(a.sizes or [1]) < 1):
        error = InvalidInputError("bench: runs and sizes are whole numbers of at least 1")
        return answer(lambda: _refuse(error), as_json=a.json)
    actions = {"new": new, "build": build_library, "test": test, "bench": bench}
    return answer(lambda: actions[a.action](a), as_json=a.json)


def _refuse(error: AscendOpsError) -> Answer:
    raise error


if __name__ == "__main__":
    sys.exit(main())
