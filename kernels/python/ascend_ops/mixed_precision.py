"""Training in mixed precision: 16-bit computation, float32 variables and loss, scaled gradients.

Loss scaling is dynamic (Micikevicius et al., "Mixed Precision Training", 2018): the loss is
multiplied so that small gradients survive in half; a step whose gradients overflow is skipped and
halves the scale, and after `growth_steps` good steps the scale doubles.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

INITIAL_SCALE = 2.0**15
GROWTH_STEPS = 2000
# Beyond float32's range for a loss of 1; a scale that reaches it helps no gradient.
MAX_SCALE = 2.0**120


@contextmanager
def mixed_precision_policy(name: str = "mixed_float16") -> Iterator[None]:
    """Sets Keras's global policy, and puts the earlier one back, also after an error."""
    before = tf.keras.mixed_precision.dtype_policy()
    tf.keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


def _cast(value: Any, dtype: tf.DType) -> Any:
    if isinstance(value, tf.Tensor | tf.Variable) and value.dtype.is_floating:
        return tf.cast(value, dtype)
    return value


def computes_in(dtype: tf.DType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: floating tensors go in as `dtype`, and results come back in the caller's dtype.

    The caller's dtype is that of the first floating tensor among the arguments. Integers and
    everything else pass unchanged. ValueError for a dtype that is not floating.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise ValueError(
            f"computes_in: dtype {tf.as_dtype(dtype).name} is not floating; use float16 or bfloat16"
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            values = tf.nest.flatten([args, kwargs])
            floating = [
                value
                for value in values
                if isinstance(value, tf.Tensor | tf.Variable) and value.dtype.is_floating
            ]
            inside_args, inside_kwargs = tf.nest.map_structure(
                lambda value: _cast(value, dtype), (args, kwargs)
            )
            result = function(*inside_args, **inside_kwargs)
            if not floating:
                return result
            return tf.nest.map_structure(lambda value: _cast(value, floating[0].dtype), result)

        return wrapped

    return decorate


class LossScale(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types
    """The scale and how many good steps it has had; state that a checkpoint keeps."""

    def __init__(
        self, initial: float = INITIAL_SCALE, growth_steps: int = GROWTH_STEPS, name: str = "scale"
    ) -> None:
        super().__init__(name)
        if not 1.0 <= initial <= MAX_SCALE or growth_steps < 1:
            raise ValueError(
                f"LossScale: initial is {initial} and growth_steps {growth_steps}; both are at "
                f"least 1, and initial at most {MAX_SCALE:.3g}"
            )
        self.value = tf.Variable(initial, trainable=False, dtype=tf.float32)
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.skipped_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._growth_steps = growth_steps

    def update(self, finite: Any) -> None:
        """Counts a step: halves the scale when it overflowed, doubles it after enough good ones."""
        count = tf.where(finite, self.good_steps + 1, 0)
        grow = count >= self._growth_steps
        grown = tf.where(grow, tf.minimum(2.0 * self.value, MAX_SCALE), self.value)
        self.value.assign(tf.where(finite, grown, tf.maximum(self.value / 2.0, 1.0)))
        self.good_steps.assign(tf.where(grow, tf.zeros_like(count), count))
        self.skipped_steps.assign_add(tf.cast(tf.logical_not(finite), tf.int64))


def _values(gradient: Any) -> Any:
    """The numbers of a gradient: those of an embedding table are the rows that were looked up."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _unscale(gradient: Any, scale: Any) -> Any:
    """The gradient in float32, divided; None stays None, and slices stay slices."""
    if gradient is None:
        return None
    values = tf.cast(_values(gradient), tf.float32) / scale
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def all_finite(gradients: list[Any]) -> Any:
    """Whether no gradient has a NaN or an infinite value; absent gradients count as finite."""
    checks = [tf.reduce_all(tf.math.is_finite(_values(g))) for g in gradients if g is not None]
    return tf.reduce_all(tf.stack(checks)) if checks else tf.constant(True)


def make_training_step(
    model: Any, loss: Callable[[Any, Any], Any], optimizer: Any, scale: LossScale
) -> Callable[[Any, Any], Any]:
    """A compiled function step(x, target) → loss (float32, unscaled).

    The model's output is cast to float32 before the loss. A step whose gradients overflow changes
    no variable, and counts in `scale.skipped_steps`.
    """
    optimizer.build(model.trainable_variables)

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, target: Any) -> Any:
        with tf.GradientTape() as tape:
            prediction = tf.cast(model(x, training=True), tf.float32)
            value = tf.reduce_mean(loss(tf.cast(target, tf.float32), prediction))
            scaled = value * scale.value
        variables = model.trainable_variables
        gradients = tape.gradient(scaled, variables)
        unscaled = [_unscale(gradient, scale.value) for gradient in gradients]
        finite = all_finite(unscaled)
        if finite:
            optimizer.apply_gradients(zip(unscaled, variables, strict=True))
        scale.update(finite)
        return value

    call: Callable[[Any, Any], Any] = step
    return call
