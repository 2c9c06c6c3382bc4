"""`python -m ascend_ops.graph_peak GRAPH.pb --batch N --outputs …`: the memory that a call takes.

In a process of its own: TensorFlow's CPU allocator keeps what it got, so that only the first call
of a size shows what it takes. A call with a batch of one comes before, for all that is made once.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from ascend_ops.graph_compare import make_inputs
from ascend_ops.graph_load import load_model
from ascend_ops.graph_view import make_callable
from ascend_ops.memory import measure_memory


def main() -> None:
    """Prints the bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--inputs", nargs="+", required=True)
    parser.add_argument("--outputs", nargs="+", required=True)
    parser.add_argument("--unfused", action="store_true", help="TensorFlow's own fusion off")
    a = parser.parse_args()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": a.unfused})
    model = load_model(a.graph, "", a.inputs, a.outputs)
    function = make_callable(model)
    function(*make_inputs(model, 1))
    print(measure_memory(function, *make_inputs(model, a.batch)).peak_increase_bytes)


if __name__ == "__main__":
    main()
