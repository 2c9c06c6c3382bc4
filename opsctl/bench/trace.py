"""The ratio candidate / baseline of each metric, with its confidence sequence over time. No I/O.

The bounds invert the gate's own test: a ratio is inside where neither "slower than it" nor
"faster than it" has an e-value of 2 / (1 - confidence). So they hold at all times together, not
only at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from opsctl.bench import stats
from opsctl.bench.evidence import PairEvidence, Rule, Track
from opsctl.bench.gate import Judge
from opsctl.bench.slices import SliceEvidence, SliceTrack, slice_differences
from opsctl.bench.stats import Booleans, Floats
from opsctl.model import Json

CONFIDENCE = 0.95

GRID_STEPS = 201
GRID_SPAN = 0.5
"""Ratios that are tried: 201 of them, from e^-0.5 to e^0.5 times the ratio of the quantiles."""

SLICE_GRID_STEP = 5
"""Slices try every fifth ratio: each slice pair is ranked on its own, which takes its time."""

TAIL_GRID_STEP = 10
"""For their p99 every tenth: rankings of some hundred requests, whose bounds are wide anyway."""

POINTS_MAX = 120
"""Most points of a sequence in a report."""


def center(track: Track) -> float:
    """The plain ratio of both arms' quantiles, 1 when it can't be told."""
    quantile = track.rule.quantile
    if not track.baseline:
        return 1.0
    # An observed value, not one between two: errors are infinite.
    low, high = (
        float(np.quantile(np.array(arm), quantile, method="inverted_cdf"))
        for arm in (track.baseline, track.candidate)
    )
    ratio = high / low if low > 0 and math.isfinite(low) else 1.0
    return ratio if math.isfinite(ratio) and ratio > 0 else 1.0


def block_sums(track: Track, grid: Floats) -> tuple[Floats, Floats]:
    """Sums of differences and of their squares, shape (full blocks, ratios)."""
    rule = track.rule
    blocks = track.used // rule.block
    used = blocks * rule.block
    first = np.array(track.baseline[:used]).reshape(blocks, rule.block)
    second = np.array(track.candidate[:used]).reshape(blocks, rule.block)
    total, squares = np.zeros((blocks, grid.size)), np.zeros((blocks, grid.size))
    if blocks:
        for column, ratio in enumerate(grid):
            values = stats.differences(first, second, float(ratio), rule.quantile)
            total[:, column] = values.sum(axis=1)
            squares[:, column] = (values**2).sum(axis=1)
    return total, squares


def sequence(total: Floats, squares: Floats, grid: Floats, mixture: float) -> Json:
    """Point estimate and bounds after the last block, and bounds after (some of) the others.

    `total` and `squares` hold blocks in the order in which they became full. A bound is None
    where the grid ends before the evidence does.
    """
    total, squares = np.cumsum(total, axis=0), np.cumsum(squares, axis=0)
    level = math.log(2.0 / (1.0 - CONFIDENCE))
    slower = stats.log_e_array(total, squares, mixture) >= level
    faster = stats.log_e_array(-total, squares, mixture) >= level
    step = max(1, math.ceil(len(total) / POINTS_MAX))
    shown = [*range(step - 1, len(total) - 1, step), len(total) - 1]
    return {
        "ratio": _zero(total[-1], grid),
        "low": _low(slower[-1], grid),
        "high": _high(faster[-1], grid),
        "over_time": [
            {
                "block": index + 1,
                "ratio": _zero(total[index], grid),
                "low": _low(slower[index], grid),
                "high": _high(faster[index], grid),
            }
            for index in shown
        ],
    }


def _zero(total: Floats, grid: Floats) -> float | None:
    """The ratio at which neither arm leads (falls with the ratio), linear between grid points."""
    below = np.flatnonzero(total <= 0)
    if below.size == 0 or below[0] == 0:
        return None
    right = int(below[0])
    left = right - 1
    part = float(total[left] / (total[left] - total[right]))
    return float(grid[left] * (grid[right] / grid[left]) ** part)


def _low(slower: Booleans, grid: Floats) -> float | None:
    excluded = np.flatnonzero(slower)
    return float(grid[excluded[-1]]) if excluded.size else None


def _high(faster: Booleans, grid: Floats) -> float | None:
    excluded = np.flatnonzero(faster)
    return float(grid[excluded[0]]) if excluded.size else None


def grid_around(middle: float) -> Floats:
    """The ratios that are tried, evenly spaced in their logarithm."""
    result: Floats = middle * np.exp(np.linspace(-GRID_SPAN, GRID_SPAN, GRID_STEPS))
    return result


def ratio_traces(judge: Judge, evidence: PairEvidence, blocks: Sequence[tuple[float, int]]) -> Json:
    """One entry a deciding metric: estimate, bounds, the same over time, log e-values.

    `blocks` tells when each block of `P50_BLOCK` pairs was full, and its batch size.
    """
    fail, passed, weights = evidence.log_e_fail(), evidence.log_e_pass(), judge.weights()
    result: Json = {}
    for name in judge.names():
        result[name] = {
            "weight": weights[name],
            "log_e_fail": _finite(fail[name]),
            "log_e_pass": _finite(passed[name]),
            "proved_at_pair": judge.cleared.get(name),
        }
        if name.startswith("p50:"):
            size = int(name.partition(":")[2])
            times = [at for at, of in blocks if of == size]
            result[name] |= traced(evidence.medians[size], times)
        elif name == "throughput":
            result[name] |= traced(evidence.rates, ())
        elif name == "p99":
            result[name] |= _traced_tail(evidence)
    return result


def slice_traces(
    judge: Judge, evidence: SliceEvidence, blocks: Sequence[tuple[float, int]]
) -> Json:
    """The same for slices; `blocks` tells when each slice pair ended."""
    fail, passed, weights = evidence.log_e_fail(), evidence.log_e_pass(), judge.weights()
    result: Json = {}
    for name in judge.names():
        result[name] = {
            "weight": weights[name],
            "log_e_fail": _finite(fail[name]),
            "log_e_pass": _finite(passed[name]),
            "proved_at_pair": judge.cleared.get(name),
        }
        if name.startswith("p50:"):
            size = int(name.partition(":")[2])
            times = [at for at, of in blocks if of == size]
            result[name] |= _traced_slices(evidence.medians[size], times)
        elif name == "throughput":
            result[name] |= traced(evidence.rates, ())
        elif name == "p99":
            result[name] |= _traced_slice_tail(list(evidence.tails.values()))
    return result


def _traced_slices(track: SliceTrack, times: Sequence[float]) -> Json:
    if not track.ends:
        return {}
    grid = grid_around(_slice_center(track))[::SLICE_GRID_STEP]
    return _timed(sequence(*slice_sums(track, grid), grid, track.mixture), times)


def _traced_slice_tail(tracks: Sequence[SliceTrack]) -> Json:
    """p99 pools all batch sizes; its rankings stand one batch size after the other."""
    having = [track for track in tracks if track.ends]
    if not having:
        return {}
    middle = _slice_center(max(having, key=lambda track: len(track.pairs)))
    grid = grid_around(middle)[::TAIL_GRID_STEP]
    parts = [slice_sums(track, grid) for track in having]
    total = np.concatenate([part[0] for part in parts])
    squares = np.concatenate([part[1] for part in parts])
    found = sequence(total, squares, grid, having[0].mixture)
    counts = [end - start for track in having for start, end in _blocks(track)]
    ends = np.cumsum(counts)
    for point in found["over_time"]:
        point["pairs"] = int(ends[point.pop("block") - 1])
    return found


def slice_sums(track: SliceTrack, grid: Floats) -> tuple[Floats, Floats]:
    """Sums of slice pairs' differences and of their squares, shape (rankings, ratios)."""
    total = np.zeros((len(track.ends), grid.size))
    squares = np.zeros_like(total)
    for row, (start, end) in enumerate(_blocks(track)):
        for column, ratio in enumerate(grid):
            pairs = track.pairs[start:end]
            values = slice_differences(pairs, float(ratio), track.rule.quantile)
            total[row, column], squares[row, column] = values.sum(), (values**2).sum()
    return total, squares


def _blocks(track: SliceTrack) -> list[tuple[int, int]]:
    return list(itertools.pairwise([0, *track.ends]))


def _slice_center(track: SliceTrack) -> float:
    """The plain ratio of both arms' quantiles, 1 when it can't be told."""
    arms = [np.concatenate([pair[arm] for pair in track.pairs]) for arm in (0, 1)]
    quantile = track.rule.quantile
    low, high = (float(np.quantile(arm, quantile, method="inverted_cdf")) for arm in arms)
    known = math.isfinite(low) and math.isfinite(high) and low > 0 and high > 0
    return high / low if known else 1.0


def _timed(found: Json, times: Sequence[float]) -> Json:
    """Seconds in the place of block numbers."""
    for point in found["over_time"]:
        index = min(point.pop("block"), len(times)) - 1
        point["seconds"] = times[index] if times else None
    return found


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def traced(track: Track, times: Sequence[float]) -> Json:
    """Ratio, bounds and their course of one track; `times` are those of its blocks."""
    grid = grid_around(center(track))
    total, squares = block_sums(track, grid)
    if not len(total):
        return {}
    return _timed(sequence(total, squares, grid, track.rule.mixture), times)


def _traced_tail(evidence: PairEvidence) -> Json:
    """p99 pools all batch sizes; its blocks stand one batch size after the other."""
    middle = center(max(evidence.tails.values(), key=lambda track: len(track.baseline)))
    grid = grid_around(middle)
    parts = [block_sums(track, grid) for track in evidence.tails.values()]
    total = np.concatenate([part[0] for part in parts])
    squares = np.concatenate([part[1] for part in parts])
    if not len(total):
        return {}
    rule: Rule = next(iter(evidence.tails.values())).rule
    found = sequence(total, squares, grid, rule.mixture)
    for point in found["over_time"]:
        point["pairs"] = point.pop("block") * rule.block
    return found
