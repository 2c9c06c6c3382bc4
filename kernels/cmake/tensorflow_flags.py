"""Prints, as JSON, what a C++ library needs to be built for this interpreter's TensorFlow."""

import json
import re
from pathlib import Path

import tensorflow as tf


def main() -> None:
    """Asks tf.sysconfig, and splits its flags into what CMake has names for."""
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


main()
