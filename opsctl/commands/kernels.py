"""kernels new, build, test and bench: a user's own operators, bundled like those of the library."""

from __future__ import annotations

import argparse

from opsctl.commands import op_library
from opsctl.commands.outcome import Outcome


def kernels(arguments: argparse.Namespace) -> Outcome:
    """One action of `opsctl kernels`."""
    if arguments.action == "new":
        words = ["new", arguments.name, arguments.directory]
    else:
        words = [arguments.action, *_build_options(arguments)]
    return op_library.call("kernels", words, python=arguments.python, timeout_s=arguments.timeout)


def _build_options(arguments: argparse.Namespace) -> list[str]:
    chosen = op_library.options(
        build_dir=arguments.build_dir,
        install=arguments.install,
        source=arguments.source,
        tensorflow=arguments.tensorflow,
        npu_arch=arguments.npu_arch,
    )
    if arguments.action == "bench":
        chosen += op_library.options(
            runs=arguments.runs, cycles=arguments.cycles, sizes=arguments.sizes
        )
    # The folders come last, behind --, as --sizes takes all words that follow it.
    return [*chosen, "--", *arguments.folders]
