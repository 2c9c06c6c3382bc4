"""What cpusim estimates for the operators of this package that a profile holds: cycles by pipe.

An estimate of the emulator's model (bytes moved, vector repeats, scalar accesses), made here and
now with the shapes of the profile. Beside the measured shares of the pipes it shows whether a
kernel does what it should. Elementwise operators only: the work of others hangs on more than the
shape of their first input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from ascend_ops.abi import DTYPES, CycleEstimate, load_library
from ascend_ops.build_record import read_build_record
from ascend_ops.errors import AscendOpsError
from ascend_ops.profile_read import Task
from ascend_ops.spec import load_spec

# The checked build takes a second for as many; cycles a further element are the same.
ELEMENTS_MAX: Final = 4194304
SEED: Final = 42
# msprof's names of the types, in the order of DTYPES.
TYPE_NAMES: Final = (
    ("FLOAT", "FLOAT32", "DT_FLOAT"),
    ("FLOAT16", "HALF", "DT_FLOAT16"),
    ("BF16", "DT_BF16", "BFLOAT16"),
)


@dataclass(frozen=True)
class TaskEstimate:
    """Cycles that one task is estimated to take; `busy` is each pipe's share of the cores' time."""

    type: str
    dtype: str
    elements: int
    cycles: float
    cores: int
    npu_arch: int
    busy: dict[str, float]

    def __str__(self) -> str:
        shares = ", ".join(
            f"{pipe.replace('_', ' ')} {100 * share:.0f}%"
            for pipe, share in sorted(self.busy.items(), key=lambda part: -part[1])
            if share >= 0.005
        )
        return (
            f"estimate, no measurement: {self.type} of {self.elements} {self.dtype}: "
            f"{self.cycles:.0f} cycles on {self.cores} core(s) of SoC family {self.npu_arch}, "
            f"of which work: {shares}"
        )


def estimate_tasks(tasks: Sequence[Task], most: int) -> tuple[list[TaskEstimate], str]:
    """Estimates of the longest tasks of operators that were built here, at most so many.

    And why there are none, or "" (there are some, or the profile has no such operator).
    """
    names = {_type_of(name): name for name in _elementwise_operators()}
    chosen: dict[tuple[str, int, int], str] = {}
    for task in sorted(tasks, key=lambda task: -task.duration_us):
        case = _case(task) if task.type in names else None
        if case is not None and len(chosen) < most:
            chosen.setdefault(case, names[task.type])
    try:
        return [_estimate(name, *case) for case, name in chosen.items()], ""
    except (AscendOpsError, ValueError) as error:
        return [], f"no estimate of cycles: {error}"


def _elementwise_operators() -> list[str]:
    try:
        names = read_build_record().operators
    except AscendOpsError:  # a profile can be read where nothing was built
        return []
    return [name for name in names if load_spec(name).elementwise]


def _type_of(operator: str) -> str:
    """The type that the op package gives it: scaled_shift is AscendScaledShift."""
    return "Ascend" + "".join(word.capitalize() for word in operator.split("_"))


def _case(task: Task) -> tuple[str, int, int] | None:
    """Type, number of the element type, elements; None where the profile has no such shape."""
    numbers = [n for n, names in enumerate(TYPE_NAMES) if task.first_type in names]
    elements = prod(task.first_shape)
    if not numbers or not task.first_shape or not 0 < elements <= ELEMENTS_MAX:
        return None
    return task.type, numbers[0], elements


def _estimate(operator: str, kind: str, number: int, elements: int) -> TaskEstimate:
    library, dtype = load_library("checked"), DTYPES[number]
    inputs = load_spec(operator).inputs(elements, dtype, np.random.default_rng(SEED))
    arrays = [*inputs, np.empty_like(inputs[0])]
    estimate: CycleEstimate = library.operators[operator].estimate(arrays, dtype, [elements])
    time = max(estimate.total, 1.0) * max(estimate.cores, 1)
    busy = {pipe: cycles / time for pipe, cycles in estimate.busy.items()}
    return TaskEstimate(
        kind, dtype.name, elements, estimate.total, estimate.cores, library.npu_arch, busy
    )
