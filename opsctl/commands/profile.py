"""profile analyse and run: what msprof measured, read, judged and drawn."""

from __future__ import annotations

import argparse

from opsctl.commands import op_library
from opsctl.commands.outcome import Outcome


def profile(arguments: argparse.Namespace) -> Outcome:
    """`profile analyse DIR`, or `profile run -- COMMAND`."""
    chosen = op_library.options(
        top=arguments.top,
        peak_gb_s=arguments.peak_gb_s,
        plot=arguments.plot,
    )
    if arguments.action == "analyse":
        words = ["analyse", *chosen, arguments.directory]
    else:
        run = op_library.options(
            directory=arguments.directory, iterations=arguments.iterations, msprof=arguments.msprof
        )
        words = ["run", *chosen, *run, "--", *arguments.program]
    return op_library.call("profile", words, python=arguments.python, timeout_s=arguments.timeout)
