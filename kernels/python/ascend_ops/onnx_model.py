"""`python -m ascend_ops.onnx_model MODEL.onnx --to PATH`: an ONNX model with fewer nodes.

Called by `opsctl model optimize` for ONNX files. The work is done in `onnx_command`, which needs
ONNX and ONNX Runtime.
"""

import argparse
import sys
from pathlib import Path

from ascend_ops.tool import Answer, answer, require_modules


def parse() -> argparse.Namespace:
    """The command line; opsctl's has the same options, with their help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("model", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--without-custom-ops", action="store_true")
    parser.add_argument("--for-atc", action="store_true")
    parser.add_argument("--no-compare", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    return parser.parse_args()


def act(a: argparse.Namespace) -> Answer:
    """One model; MissingModuleError without ONNX or its runtime."""
    require_modules("onnx", "onnxoptimizer", "onnxruntime", extra="onnx")
    from ascend_ops.onnx_command import act as work

    return work(a)


def main() -> int:
    """One model; the exit code is opsctl's."""
    a = parse()
    return answer(lambda: act(a), as_json=a.json)


if __name__ == "__main__":
    sys.exit(main())
