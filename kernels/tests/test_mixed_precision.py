"""Mixed precision: the policy, the cast wrapper, dynamic loss scaling, the comparison."""

import numpy as np
import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import mixed_precision as mp
from ascend_ops import mixed_precision_benchmark
from ascend_ops import tensorflow as ascend_tf


def policy_name() -> str:
    """Keras's global policy."""
    return str(tf.keras.mixed_precision.dtype_policy().name)


def test_the_global_policy_is_put_back_also_after_an_error() -> None:
    before = policy_name()
    with mp.mixed_precision_policy():
        assert policy_name() == "mixed_float16"
    assert policy_name() == before
    with pytest.raises(KeyError), mp.mixed_precision_policy():
        raise KeyError
    assert policy_name() == before


def test_the_wrapper_computes_in_half_and_returns_the_callers_type() -> None:
    seen = []

    @mp.computes_in(tf.float16)
    def compute(x: tf.Tensor, times: tf.Tensor) -> dict[str, tf.Tensor]:
        """Records the types inside."""
        seen.extend([x.dtype, times.dtype])
        return {"y": ascend_tf.sigmoid(x), "n": times}

    result = compute(tf.constant([0.1]), times=tf.constant([3]))
    assert seen == [tf.float16, tf.int32]
    assert (result["y"].dtype, result["n"].dtype) == (tf.float32, tf.int32)
    assert result["y"].numpy()[0] == np.float32(np.float16(0.52497918))
    assert compute.__doc__ == "Records the types inside."


def make_model() -> tf.keras.Model:
    """A single weight of 1 without bias, in mixed precision."""
    with mp.mixed_precision_policy():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
        )
        model.build((None, 1))
    return model


def test_an_overflowing_step_changes_nothing_and_halves_the_scale() -> None:
    model, scale = make_model(), mp.LossScale(2.0**15)
    step = mp.make_training_step(model, tf.losses.mse, tf.keras.optimizers.SGD(0.1), scale)
    # The gradient is 2·x²·2^15 = 2^22 in half: infinite.
    loss = step(tf.constant([[8.0]]), tf.constant([[0.0]]))
    assert float(loss) == 64.0
    assert float(scale.value) == 2.0**14
    assert int(scale.skipped_steps) == 1
    assert model.get_weights()[0].item() == 1.0


def test_small_gradients_that_half_would_lose_survive() -> None:
    weights = []
    for initial in (1.0, 2.0**15):
        model = make_model()
        model.set_weights([np.zeros((1, 1), np.float32)])
        step = mp.make_training_step(
            model, lambda _, p: p * 2.0**-14, tf.keras.optimizers.SGD(1.0), mp.LossScale(initial)
        )
        step(tf.constant([[2.0**-14]]), tf.constant([[0.0]]))
        weights.append(model.get_weights()[0].item())
    # The gradient is 2^-28, and half's smallest number is 2^-24.
    assert weights == [0.0, -(2.0**-28)]


def test_the_scale_doubles_after_enough_good_steps() -> None:
    model, scale = make_model(), mp.LossScale(4.0, growth_steps=3)
    step = mp.make_training_step(model, tf.losses.mse, tf.keras.optimizers.SGD(0.1), scale)
    scales = []
    for _ in range(7):
        step(tf.constant([[0.5]]), tf.constant([[0.25]]))
        scales.append(float(scale.value))
    assert scales == [4.0, 4.0, 8.0, 8.0, 8.0, 16.0, 16.0]


def test_a_table_that_is_looked_up_trains_by_slices_and_skips_an_overflow() -> None:
    with mp.mixed_precision_policy():
        model = tf.keras.Sequential(
            [tf.keras.layers.Embedding(3, 1, embeddings_initializer="ones")]
        )
        model.build((None, 1))
    scale = mp.LossScale(2.0)
    step = mp.make_training_step(model, tf.losses.mse, tf.keras.optimizers.SGD(0.5), scale)
    step(tf.constant([[1]]), tf.constant([[[0.0]]]))  # the gradient of row 1 is 2
    assert model.get_weights()[0].ravel().tolist() == [1.0, 0.0, 1.0]
    scale.value.assign(2.0**17)  # beyond half's range
    step(tf.constant([[2]]), tf.constant([[[0.0]]]))
    assert model.get_weights()[0].ravel().tolist() == [1.0, 0.0, 1.0]
    assert (int(scale.skipped_steps), float(scale.value)) == (1, 2.0**16)


def test_the_scale_refuses_senseless_settings() -> None:
    with pytest.raises(ValueError, match=r"initial is 0\.5 and growth_steps 10; both are at least"):
        mp.LossScale(0.5, 10)
    for initial in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"initial is {initial} .*initial at most 1\.33e\+36"):
            mp.LossScale(initial)
    with pytest.raises(ValueError, match="dtype int32 is not floating; use float16 or bfloat16"):
        mp.computes_in(tf.int32)


@pytest.mark.long
def test_both_arms_learn_and_agree() -> None:
    comparison = mixed_precision_benchmark.compare(batches=30, rows=32)
    assert comparison.float32.last_loss < 0.8 * comparison.float32.first_loss
    assert comparison.mixed.last_loss < 0.8 * comparison.mixed.first_loss
    assert comparison.max_error < 0.02
    assert comparison.speedup > 0
