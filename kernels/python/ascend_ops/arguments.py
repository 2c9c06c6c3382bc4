"""Checks of arguments that the front ends without a framework's own type checks share."""

from typing import Any, Final

import numpy as np

# What to do about an index that the table has not.
CORRECT: Final = "; correct the index, or enlarge the table"


def check_arrays(operator: str, *arrays: Any) -> None:
    """TypeError that names the first argument which is no NumPy array."""
    for position, array in enumerate(arrays, 1):
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"{operator}: argument {position} is of type {type(array).__name__}, and the "
                "operators take NumPy arrays. Convert it: numpy.asarray(x, numpy.float32)"
            )


def check_indices(operator: str, indices: Any) -> None:
    """TypeError unless these are whole numbers in a NumPy array."""
    check_arrays(operator, np.empty(0), indices)
    if not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(
            f"{operator}: indices have dtype {indices.dtype}; they must be whole numbers. "
            "Cast them: indices.astype(numpy.int64)"
        )


def check_counts(name: str, lowest: int = 1, **counts: Any) -> None:
    """ValueError that names the first of `counts` which is no whole number from `lowest` on."""
    for argument, count in counts.items():
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or count < lowest:
            raise ValueError(
                f"{name}: {argument} is {count!r}; it must be a whole number of at least {lowest}"
            )


def check_padding(name: str, padding_idx: int | None, rows: int) -> None:
    """ValueError unless the padding row is None, for none, or a row of the table."""
    whole = isinstance(padding_idx, int | np.integer) and not isinstance(padding_idx, bool)
    if padding_idx is not None and not (whole and 0 <= padding_idx < rows):
        raise ValueError(
            f"{name}: padding_idx is {padding_idx!r}, which is not a row of the table of {rows} "
            "rows; use 0 to the last row, or None for no padding"
        )


def check_steps(operator: str, **steps: Any) -> None:
    """ValueError unless each is a pair of whole numbers from 1 on: along height and width."""
    for name, pair in steps.items():
        whole = isinstance(pair, tuple | list) and all(
            isinstance(step, int | np.integer) and not isinstance(step, bool) for step in pair
        )
        if not whole or len(pair) != 2 or min(pair) < 1:
            raise ValueError(
                f"{operator}: {name} is {pair!r}; it must be two whole numbers of at least 1, "
                "along (height, width)"
            )


def check_choice(operator: str, choices: tuple[str, ...], **given: Any) -> None:
    """ValueError unless each is one of the choices."""
    for name, value in given.items():
        if value not in choices:
            raise ValueError(
                f"{operator}: {name} is {value!r}; it must be one of {', '.join(choices)}"
            )
