"""`python -m ascend_ops.profile analyse DIR` and `… run -- COMMAND`: what msprof measured, judged.

Called by `opsctl profile`.
"""

import argparse
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ascend_ops.errors import InvalidInputError
from ascend_ops.profile_analysis import Latency, analyse
from ascend_ops.profile_estimate import estimate_tasks
from ascend_ops.profile_read import read_profile
from ascend_ops.profile_report import format_analysis, plot
from ascend_ops.profile_run import fill, find_msprof, make_folder, run_outside, run_under_msprof
from ascend_ops.tool import Answer, answer


def analyse_folder(
    a: argparse.Namespace, directory: Path, outside: Latency | None = None
) -> Answer:
    """Reads a folder and judges it; with `outside` the latency is that of the unprofiled runs."""
    profile = read_profile(directory)
    analysis = analyse(profile, a.top, a.peak_gb_s)
    if outside is not None:
        throughput = 1e6 / outside.mean_us if outside.mean_us else 0.0
        analysis = replace(analysis, latency=outside, throughput_per_s=throughput)
    estimates, reason = estimate_tasks(profile.tasks, a.top)
    text = f"{profile.source}\n{format_analysis(analysis)}"
    text += "".join(f"\n{line}" for line in [*estimates, *([reason] if reason else [])])
    if profile.left_out:
        text += f"\n{profile.left_out} older PROF folder(s) in {directory} were left out"
    data: dict[str, Any] = {"source": str(profile.source), **asdict(analysis)}
    data["estimates"] = [asdict(estimate) for estimate in estimates]
    if a.plot is not None:
        plot(analysis, a.plot)
        text += f"\nwrote {a.plot}"
        data["plot"] = str(a.plot)
    return Answer("analysed", text, data)


def run_program(a: argparse.Namespace) -> Answer:
    """Times the program outside the profiler, runs it under msprof, and judges that."""
    msprof = find_msprof(a.msprof)  # before the program is run a hundred times for nothing
    make_folder(a.directory)
    outside = run_outside(a.program, a.iterations)
    run_under_msprof(msprof, fill(a.program, a.iterations), a.directory)
    microseconds = sorted(1e6 * second for second in outside.seconds)
    cuts = (
        statistics.quantiles(microseconds, n=100, method="inclusive")
        if len(microseconds) > 1
        else microseconds * 99
    )
    latency = Latency(
        statistics.fmean(microseconds),
        cuts[49],
        cuts[94],
        cuts[98],
        outside.iterations,
        "outside the profiler",
    )
    return analyse_folder(a, a.directory, latency)


def parse() -> argparse.Namespace:
    """The command line; opsctl's has the same options, with their help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    actions = parser.add_subparsers(dest="action", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--top", type=int, default=10)
    common.add_argument("--peak-gb-s", type=float)
    common.add_argument("--plot", type=Path)
    read = actions.add_parser("analyse", parents=[common])
    read.add_argument("directory", type=Path)
    run = actions.add_parser("run", parents=[common])
    run.add_argument("--directory", type=Path, default=Path("profile"))
    run.add_argument("--iterations", type=int, default=100)
    run.add_argument("--msprof")
    run.add_argument("program", nargs="+")
    return parser.parse_args()


def act(a: argparse.Namespace) -> Answer:
    """One action, with options that mean something."""
    if a.top < 1 or (a.peak_gb_s is not None and not 0 < a.peak_gb_s < float("inf")):
        raise InvalidInputError("profile: --top is at least 1, and --peak-gb-s above 0")
    if a.action == "analyse":
        return analyse_folder(a, a.directory)
    if a.iterations < 1:
        raise InvalidInputError("profile: --iterations is at least 1")
    return run_program(a)


def main() -> int:
    """One action; the exit code is opsctl's."""
    a = parse()
    return answer(lambda: act(a), as_json=a.json)


if __name__ == "__main__":
    sys.exit(main())
