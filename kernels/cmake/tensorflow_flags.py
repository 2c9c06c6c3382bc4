"""Prints, as JSON, what a C++ library needs to be built for this interpreter's TensorFlow.

With --mark only what tells one installed TensorFlow from another: that is known without its import,
which takes seconds.
"""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path


def mark() -> str:
    """Place and time of the installed package; empty when there is none."""
    found = find_spec("tensorflow")
    if found is None or found.origin is None:
        return ""
    return f"{sys.executable} {found.origin} {Path(found.origin).stat().st_mtime_ns}"


def main() -> None:
    """Asks tf.sysconfig, and splits its flags into what CMake has names for."""
    import tensorflow as tf

    flags = tf.sysconfig.get_compile_flags()
    standards = [re.fullmatch(r"--?std=(?:c|gnu)\+\+(\d+)", flag) for flag in flags]
    standard = next((match.group(1) for match in standards if match), "11")
    library = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so*"))
    answer = {
        "version": tf.__version__,
        "cxx11_abi": str(tf.sysconfig.CXX11_ABI_FLAG),
        "include": tf.sysconfig.get_include(),
        "library": str(library),
        "cxx_standard": standard,
        "definitions": ";".join(flag[2:] for flag in flags if flag.startswith("-D")),
    }
    print(json.dumps(answer))


if sys.argv[1:] == ["--mark"]:
    print(mark())
else:
    main()
