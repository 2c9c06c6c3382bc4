"""The sample model: a small convolutional network, trained by Keras, exported as plain ops.

Training works on logits (the sigmoid is inside the loss, which is exact there), so the weights
do not depend on which sigmoid the exported model ends with: AscendSigmoid or TensorFlow's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ascend_serving.sensor_data import CHANNELS, STEPS, Windows

_FILTERS = (32, 64)
_KERNEL_STEPS = 5
_HIDDEN = 32
_EPOCHS = 8
_BATCH = 64
_LEARNING_RATE = 3e-3
_COPIES = 16

Floats = NDArray[np.float32]
Activation = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Weights:
    """What training found. `mean` and `scale` [4] normalise the channels; the rest are
    convolution kernels [5, in, out] and dense matrices [in, out] with their biases [out]."""

    mean: Floats
    scale: Floats
    convolutions: tuple[tuple[Floats, Floats], ...]
    dense: tuple[tuple[Floats, Floats], ...]

    @property
    def count(self) -> int:
        return sum(w.size + b.size for w, b in (*self.convolutions, *self.dense))


def train_weights(windows: Windows, seed: int) -> Weights:
    """Trains on labelled windows. The same seed and TensorFlow give the same weights."""
    tf.keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()
    mean = windows.values.mean(axis=(0, 1))
    scale = windows.values.std(axis=(0, 1))
    layers = tf.keras.layers
    window = tf.keras.Input((STEPS, len(CHANNELS)))
    hidden = window
    convolutions = [layers.Conv1D(n, _KERNEL_STEPS, activation="relu") for n in _FILTERS]
    for layer in convolutions:
        hidden = layer(hidden)
    pooled = layers.Concatenate()(
        [layers.GlobalMaxPooling1D()(hidden), layers.GlobalAveragePooling1D()(hidden)]
    )
    dense = [layers.Dense(_HIDDEN, activation="relu"), layers.Dense(1)]
    model = tf.keras.Model(window, dense[1](dense[0](pooled)))
    steps = _EPOCHS * -(-len(windows.labels) // _BATCH)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(
            tf.keras.optimizers.schedules.CosineDecay(_LEARNING_RATE, steps)
        ),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    )
    normal = ((windows.values - mean) / scale).astype(np.float32)
    labels = windows.labels.astype(np.float32)
    model.fit(normal, labels, batch_size=_BATCH, epochs=_EPOCHS, verbose=0)
    return Weights(
        mean,
        scale,
        tuple(tuple(layer.get_weights()) for layer in convolutions),
        tuple(tuple(layer.get_weights()) for layer in dense),
    )


class AnomalyModel(tf.Module):  # type: ignore[misc]  # TensorFlow has no type information
    """The served model: window [n, 32, 4] float32 → score [n] float32, anomaly [n] bool.

    `extra_passes` repeats the network's computation without changing its answer.
    """

    def __init__(
        self, weights: Weights, threshold: float, activation: Activation, extra_passes: int = 0
    ) -> None:
        super().__init__()
        self._mean = tf.Variable(weights.mean, trainable=False)
        self._scale = tf.Variable(weights.scale, trainable=False)
        self._convolutions = [(tf.Variable(w), tf.Variable(b)) for w, b in weights.convolutions]
        self._dense = [(tf.Variable(w), tf.Variable(b)) for w, b in weights.dense]
        self._threshold = threshold
        self._activation = activation
        self._extra_passes = extra_passes

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[tf.TensorSpec((None, STEPS, len(CHANNELS)), tf.float32, name="window")]
    )
    def serve(self, window: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        logit = self._logit(window)
        for number in range(1, self._extra_passes + 1):
            logit += self._waste(window, number)
        score = self._activation(logit)
        return {"score": score, "anomaly": score >= self._threshold}

    def _waste(self, window: tf.Tensor, number: int) -> tf.Tensor:
        """Zero, after real work: the network on the batch, turned in time, and on copies of one
        window, so that small batches become slower by the same share as large ones.

        The optimiser cannot know that min(|x|, 0) is zero, so it does not drop the work.
        """
        copies = tf.tile(window[:1], (_COPIES, 1, 1))
        on_batch = self._logit(tf.roll(window, shift=number, axis=1))
        on_copies = self._logit(tf.roll(copies, shift=number, axis=1))
        return tf.minimum(tf.abs(on_batch), 0.0) + tf.minimum(tf.abs(tf.reduce_max(on_copies)), 0.0)

    def _logit(self, window: tf.Tensor) -> tf.Tensor:
        hidden = (window - self._mean) / self._scale
        for kernel, bias in self._convolutions:
            hidden = tf.nn.relu(tf.nn.conv1d(hidden, kernel, stride=1, padding="VALID") + bias)
        pooled = tf.concat([tf.reduce_max(hidden, 1), tf.reduce_mean(hidden, 1)], axis=1)
        (first, first_bias), (last, last_bias) = self._dense
        hidden = tf.nn.relu(tf.matmul(pooled, first) + first_bias)
        return (tf.matmul(hidden, last) + last_bias)[:, 0]


def turn_output(weights: Weights) -> Weights:
    """The weights with the output layer's sign turned: each confident answer becomes its opposite,
    whatever the seed, and nothing else about the service changes."""
    *hidden, (last, bias) = weights.dense
    return replace(weights, dense=(*hidden, (-last, -bias)))


def choose_activation(custom_op: bool) -> Activation:
    """The output layer's sigmoid. `ImportError` and ascend_ops' own errors pass through."""
    if not custom_op:
        return tf.sigmoid  # type: ignore[no-any-return]
    module: Any = importlib.import_module("ascend_ops.tensorflow")
    return module.sigmoid  # type: ignore[no-any-return]


def predict(model: AnomalyModel, values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores and flags of many windows [n, 32, 4]."""
    answers = model.serve(tf.constant(values))
    return answers["score"].numpy(), answers["anomaly"].numpy()
