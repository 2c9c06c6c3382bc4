"""Times of two arms that ran in turn, compared: the ratio, how sure it is, and its bar.

A busy machine slows both calls of a pair, so that their ratio stays when neither time does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

# "≥ 1.0×" is shown when the 95 % interval's lower end is within 3 % of it: a median of some
# hundred pairs is not surer than that.
TOLERATED: Final = 0.97
# Below the bar, but the median is within 10 %: noise or a little work is what is missing.
NEAR: Final = 0.9
NORMAL_95: Final = 1.96

Verdict = Literal["reached", "near", "missed"]


@dataclass(frozen=True)
class Ratio:
    """How often faster: the median of paired ratios, with its 95 % interval."""

    speedup: float
    low: float
    high: float

    def judge(self, bar: float = 1.0) -> Verdict:
        """Whether it is shown to be at least `bar`."""
        if self.low >= TOLERATED * bar:
            return "reached"
        return "near" if self.speedup >= NEAR * bar else "missed"

    def __str__(self) -> str:
        return f"{self.speedup:.2f}× ({self.low:.2f}–{self.high:.2f})"


def ratio_of(
    before: Sequence[float] | NDArray[np.float64], after: Sequence[float] | NDArray[np.float64]
) -> Ratio:
    """`before` ÷ `after`, pair by pair: above 1 where `after` took less time.

    The interval of the median is that of order statistics (H. David and H. Nagaraja, Order
    Statistics, 2003, 7.1), in the normal approximation.
    """
    ratios = np.sort(np.asarray(before) / np.asarray(after))
    half = NORMAL_95 * np.sqrt(len(ratios)) / 2
    low = max(0, int(np.floor(len(ratios) / 2 - half)))
    high = min(len(ratios) - 1, int(np.ceil(len(ratios) / 2 + half)))
    return Ratio(float(np.median(ratios)), float(ratios[low]), float(ratios[high]))
