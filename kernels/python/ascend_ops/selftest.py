"""`python -m ascend_ops.selftest`: the self-test as JSON on stdout; exit 0, or 13 when it fails.

Only for the command line: in Python call `ascend_ops.selftest()`.
"""

import argparse
import json
import sys
from typing import Any

from ascend_ops.accuracy import selftest
from ascend_ops.errors import AscendOpsError

EXIT_FAILED = 13  # opsctl's code for a smoke test that failed


def main() -> int:
    """Prints the report, or `{"outcome": "error", "message": ...}`, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ascend_ops.selftest", description=__doc__)
    parser.add_argument("--front-end", choices=["auto", "numpy", "tensorflow"], default="auto")
    arguments = parser.parse_args()
    answer: dict[str, Any]
    try:
        answer = selftest(arguments.front_end).as_dict()
    except AscendOpsError as error:
        answer = {"outcome": "error", "message": str(error)}
    print(json.dumps(answer, indent=2))
    return 0 if answer["outcome"] == "pass" else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
