"""How far the answers of an optimised graph may differ, by the type of an output."""

from typing import Final

# Of the largest value of an output: float32 sums of some thousand products; half and bfloat16
# round each layer's result.
TOLERANCES: Final = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
TOLERANCE_OTHER: Final = 0.0
