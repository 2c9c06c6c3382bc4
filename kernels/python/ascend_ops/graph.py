"""`python -m ascend_ops.graph MODEL --to PATH`: a TensorFlow model frozen, simplified and fused.

Called by `opsctl model optimize`. The work is done in `graph_command`, which needs TensorFlow.
"""

import argparse
import os
import sys
from pathlib import Path

from ascend_ops.tool import Answer, answer, require_modules

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def parse() -> argparse.Namespace:
    """The command line; opsctl's has the same options, with their help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("model", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--signature")
    parser.add_argument("--inputs", nargs="+")
    parser.add_argument("--outputs", nargs="+")
    parser.add_argument("--without-custom-ops", action="store_true")
    parser.add_argument("--layout", choices=("keep", "nhwc"), default="keep")
    parser.add_argument("--no-compare", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    return parser.parse_args()


def act(a: argparse.Namespace) -> Answer:
    """One model; MissingModuleError without TensorFlow."""
    require_modules("tensorflow", extra="tensorflow")
    from ascend_ops.graph_command import act as work

    return work(a)


def main() -> int:
    """One model; the exit code is opsctl's."""
    a = parse()
    return answer(lambda: act(a), as_json=a.json)


if __name__ == "__main__":
    sys.exit(main())
