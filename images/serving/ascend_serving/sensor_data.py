"""Generated sensor windows of a rotating machine, normal and with known faults.

A window is 32 samples of 4 channels. All channels follow one hidden load with their own gain and
lag, plus noise, so that a channel which stops following is a fault even when its values are in
range. Units: temperature °C, vibration mm/s, pressure bar, current A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEPS = 32
CHANNELS = ("temperature", "vibration", "pressure", "current")
NORMAL = "normal"
# Four decimals: what a sensor's converter gives, and what a JSON line carries without loss.
DECIMALS = 4

_BASE = np.array([60.0, 2.5, 5.0, 12.0])
_GAIN = np.array([4.0, 0.6, 0.4, 3.0])
_NOISE = np.array([0.25, 0.06, 0.03, 0.2])
_LAG_STEPS = np.array([3, 0, 1, 0])  # temperature follows the load late

Floats = NDArray[np.float64]
_Fault = Callable[[np.random.Generator, Floats, int], None]


@dataclass(frozen=True)
class Windows:
    """`values` [n, 32, 4] float32, `labels` [n] bool (an anomaly), `kinds` [n] names."""

    values: NDArray[np.float32]
    labels: NDArray[np.bool_]
    kinds: list[str]


def generate(seed: int, count: int, anomaly_share: float = 0.4) -> Windows:
    """`count` windows; the same seed gives the same windows, bit for bit."""
    rng = np.random.default_rng(seed)
    values = np.stack([_normal_window(rng) for _ in range(count)])
    kinds = [NORMAL] * count
    names = list(FAULTS)
    for index in np.flatnonzero(rng.random(count) < anomaly_share):
        kind = names[int(rng.integers(len(names)))]
        kinds[index] = kind
        FAULTS[kind](rng, values[index], int(rng.integers(len(CHANNELS))))
    labels = np.array([kind != NORMAL for kind in kinds])
    return Windows(np.round(values, DECIMALS).astype(np.float32), labels, kinds)


def _normal_window(rng: np.random.Generator) -> Floats:
    time = np.arange(-int(_LAG_STEPS.max()), STEPS)
    period = rng.uniform(12, 40)
    load = rng.uniform(0.4, 1.2) * np.sin(2 * np.pi * time / period + rng.uniform(0, 2 * np.pi))
    load += rng.uniform(-0.5, 0.5)
    start = int(_LAG_STEPS.max())
    lagged = np.stack([load[start - lag : start - lag + STEPS] for lag in _LAG_STEPS], axis=1)
    window: Floats = _BASE + _GAIN * lagged + _NOISE * rng.standard_normal((STEPS, len(CHANNELS)))
    return window


def _span(rng: np.random.Generator, shortest: int) -> slice:
    """A stretch of the window, at least `shortest` steps long."""
    start = int(rng.integers(0, STEPS - shortest + 1))
    return slice(start, int(rng.integers(start + shortest, STEPS + 1)))


def _sign(rng: np.random.Generator) -> float:
    return 1.0 if rng.random() < 0.5 else -1.0


def _spike(rng: np.random.Generator, window: Floats, channel: int) -> None:
    step = int(rng.integers(STEPS))
    window[step, channel] += _sign(rng) * rng.uniform(0.6, 2.0) * _GAIN[channel]


def _level_shift(rng: np.random.Generator, window: Floats, channel: int) -> None:
    start = int(rng.integers(4, STEPS - 6))
    window[start:, channel] += _sign(rng) * rng.uniform(0.4, 1.5) * _GAIN[channel]


def _drift(rng: np.random.Generator, window: Floats, channel: int) -> None:
    ramp = np.linspace(0, rng.uniform(0.8, 2.5), STEPS)
    window[:, channel] += _sign(rng) * ramp * _GAIN[channel]


def _stuck(rng: np.random.Generator, window: Floats, channel: int) -> None:
    span = _span(rng, shortest=6)
    window[span, channel] = window[span.start, channel]


def _noise_burst(rng: np.random.Generator, window: Floats, channel: int) -> None:
    span = _span(rng, shortest=8)
    size = span.stop - span.start
    window[span, channel] += rng.uniform(0.15, 0.6) * _GAIN[channel] * rng.standard_normal(size)


def _decoupled(rng: np.random.Generator, window: Floats, channel: int) -> None:
    # The channel of another machine at another load: each value is normal, not the whole.
    window[:, channel] = _normal_window(rng)[:, channel]


FAULTS: dict[str, _Fault] = {
    "spike": _spike,
    "level_shift": _level_shift,
    "drift": _drift,
    "stuck": _stuck,
    "noise_burst": _noise_burst,
    "decoupled": _decoupled,
}
