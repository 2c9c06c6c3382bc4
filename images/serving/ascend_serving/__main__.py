"""`python -m ascend_serving serve …`: from the command line to a serving process.

`detect` runs the same pipeline on a stream of windows instead of HTTP requests.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence

from ascend_serving.errors import StartError, UsageError

_USAGE = (
    "usage: python -m ascend_serving serve|detect --model-path DIR [options] (--help lists them)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code. Errors of the start are one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _keep_stderr()
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_USAGE)
            return 0 if arguments else UsageError.exit_code
        if arguments[0] not in _COMMANDS:
            raise UsageError(f"unknown command {arguments[0]}", "it is serve or detect", _USAGE)
        return _COMMANDS[arguments[0]](arguments[1:])
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _serve(arguments: Sequence[str]) -> int:
    # Imports stand here so that --help and a wrong option cost nothing, and so that the model
    # loads on its thread while the web server's modules are imported on this one.
    started_s = time.monotonic()
    from ascend_serving.options import read_options

    options = read_options(arguments)
    from ascend_serving.artifact import find_artifact
    from ascend_serving.listen import bind

    artifact = find_artifact(options.model_path)
    listeners = (
        bind(options.host, options.port, "--port"),
        bind(options.health_host, options.health_port, "--health-port"),
    )
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    from ascend_serving.loader import start_loading

    loading = start_loading(options, artifact)
    from ascend_serving.server import run

    return run(options, artifact, listeners, loading, started_s)


def _detect(arguments: Sequence[str]) -> int:
    from ascend_serving.stream import run_detect

    return run_detect(arguments, sys.stdin.buffer, sys.stdout.buffer)


def _keep_stderr() -> None:
    """Gives Python a stderr of its own, so that muting a C library's does not mute Python's."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")


_COMMANDS = {"serve": _serve, "detect": _detect}


def entry() -> None:
    """Runs `main` and ends the process at once.

    A batch that hangs in a driver holds its thread, and Python would wait for it; TensorFlow's
    own tear-down has nothing to save either.
    """
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    entry()
