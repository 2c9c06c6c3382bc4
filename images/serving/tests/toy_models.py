"""Builds small SavedModels for the tests: `python toy_models.py DIR`.

half_plus_two  TensorFlow Serving's own test model: y = x / 2 + 2
tensors        several inputs and outputs of several types and ranks, each answer easy to know
fixed          inputs without a common free axis
table          looks indexes up in a table of four; others are INVALID_ARGUMENT
busy           works for as many rounds as its input says
"""

import sys
from pathlib import Path

import tensorflow as tf


class HalfPlusTwo(tf.Module):
    def __init__(self):
        super().__init__()
        self.half = tf.Variable(0.5)
        self.two = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.float32, name="x")])
    def serve(self, x):
        return {"y": x * self.half + self.two}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.float32, name="x")])
    def double(self, x):
        return {"y": x * 2.0}


class Tensors(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec((None,), tf.string, name="tag"),
            tf.TensorSpec((None, 5), tf.int64, name="signal"),
            tf.TensorSpec((None, 2, 2), tf.float64, name="sensor"),
            tf.TensorSpec((None,), tf.bool, name="flag"),
        ]
    )
    def serve(self, tag, signal, sensor, flag):
        return {
            "tag": tag,
            "tag_bytes": tf.strings.join([tag, "!"]),
            "total": tf.reduce_sum(signal, axis=1),
            "sensor": sensor * 2,
            "flipped": tf.logical_not(flag),
            "small": tf.cast(signal, tf.uint8),
        }


class Fixed(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec((2, 3), tf.float32, name="a"),
            tf.TensorSpec((3, 1), tf.float32, name="b"),
        ]
    )
    def serve(self, a, b):
        return {"product": tf.matmul(a, b)}


class Table(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec((None,), tf.int32, name="index")])
    def serve(self, index):
        return {"value": tf.gather(tf.constant([10.0, 11.0, 12.0, 13.0]), index)}


class Busy(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec((None,), tf.int32, name="rounds")])
    def serve(self, rounds):
        def work(i, x):
            return i + 1, tf.sin(x) + 1e-6

        start = (tf.constant(0), tf.zeros((100_000,)))
        _, x = tf.while_loop(lambda i, _: i < tf.reduce_max(rounds), work, start)
        return {"done": tf.cast(rounds, tf.float32) + tf.minimum(tf.abs(x[0]), 0.0)}


def main(folder: Path) -> None:
    models = {"tensors": Tensors(), "fixed": Fixed(), "table": Table(), "busy": Busy()}
    for name, model in models.items():
        tf.saved_model.save(
            model, str(folder / name / "1"), signatures={"serving_default": model.serve}
        )
    half = HalfPlusTwo()
    signatures = {"serving_default": half.serve, "double": half.double}
    tf.saved_model.save(half, str(folder / "half_plus_two" / "123"), signatures=signatures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
