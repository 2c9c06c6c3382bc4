"""`python -m ascend_ops.mixed_precision_benchmark`: float32 against mixed precision, as JSON.

Each arm trains the same model from the same weights on the same batches in a process of its own,
so that neither finds caches, threads or a policy of the other. On a CPU half is slower than
float32 by orders of magnitude, because TensorFlow multiplies half matrices element by element:
`--rows 32` gives an answer in seconds.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

BATCHES = 100
BATCH_ROWS = 1024
WIDTH = 256
HIDDEN = 512
SEED = 42
WARM_UP_BATCHES = 5
POLICIES = ("float32", "mixed_float16")


@dataclass(frozen=True)
class Arm:
    """One policy's run: seconds for all batches after the warm-up, and what the model then says."""

    policy: str
    seconds: float
    first_loss: float
    last_loss: float
    skipped_steps: int
    predictions: list[float]


@dataclass(frozen=True)
class Comparison:
    """Both arms; `max_error` is the largest difference of their predictions."""

    batches: int
    rows: int
    width: int
    float32: Arm
    mixed: Arm
    speedup: float
    max_error: float


def _train(policy: str, batches: int, rows: int) -> Arm:
    import tensorflow as tf

    from ascend_ops.mixed_precision import LossScale, make_training_step, mixed_precision_policy

    tf.keras.utils.set_random_seed(SEED)
    generator = np.random.default_rng(SEED)
    x = generator.normal(size=(batches, rows, WIDTH)).astype(np.float32)
    target = np.tanh(x[..., :1] - x[..., 1:2])
    with mixed_precision_policy(policy):
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(HIDDEN, "relu"), tf.keras.layers.Dense(1)]
        )
        model.build((None, WIDTH))
    scale = LossScale() if policy != "float32" else LossScale(1.0, sys.maxsize)
    step = make_training_step(model, tf.losses.mse, tf.keras.optimizers.SGD(0.005), scale)
    losses = [float(step(x[i], target[i])) for i in range(min(WARM_UP_BATCHES, batches))]
    start = time.perf_counter()
    losses += [float(step(x[i], target[i])) for i in range(batches)]
    seconds = time.perf_counter() - start
    predictions = tf.cast(model(x[0, :64]), tf.float32).numpy().ravel().tolist()
    skipped = int(scale.skipped_steps.numpy())
    return Arm(policy, seconds, losses[0], losses[-1], skipped, predictions)


def _run_isolated(policy: str, batches: int, rows: int) -> Arm:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    command += ["--arm", policy, "--batches", str(batches), "--rows", str(rows)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Arm(**json.loads(done.stdout))


def compare(batches: int = BATCHES, rows: int = BATCH_ROWS) -> Comparison:
    """Runs both arms, one after the other, each in its own process."""
    plain, mixed = (_run_isolated(policy, batches, rows) for policy in POLICIES)
    difference = np.abs(np.subtract(plain.predictions, mixed.predictions))
    speedup = plain.seconds / mixed.seconds
    return Comparison(
        batches, rows, WIDTH, plain, mixed, speedup, float(difference.max(initial=0.0))
    )


def main() -> int:
    """Prints the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--rows", type=int, default=BATCH_ROWS, help="rows of a batch")
    parser.add_argument("--arm", choices=POLICIES, help="run one arm in this process")
    arguments = parser.parse_args()
    answer: Any
    if arguments.arm:
        answer = asdict(_train(arguments.arm, arguments.batches, arguments.rows))
    else:
        answer = asdict(compare(arguments.batches, arguments.rows))
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
