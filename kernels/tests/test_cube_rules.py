"""The checked build catches each way in which a kernel of the cube unit can break its rules.

Each mutant is the real kernel of matmul_bias_act with one edit; all are compiled into one library.
"""

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from ascend_ops.abi import DTYPES, _Error, _Tensor

from kernels.tests.mutant_library import Edit, compile_checked, mutated, read_table

PARTS = (
    "common/tile_copy.h",
    "common/cube_epilogue.h",
    "common/cube_load.h",
    "common/cube_gemm.h",
    "matmul_bias_act/matmul_bias_act_kernel.h",
)
CORE = r"core \d+, tile -?\d+"
# A fault between cores names both.
PLACE = rf"({CORE}, (\w+\+0x[0-9a-f]+|address \S+): |{CORE} and {CORE}, address \S+: )"
C_TYPES = {"float": 0, "half": 1}


@dataclass(frozen=True)
class Mutant(Edit):
    """A mutant and the problem to run it on."""

    sizes: tuple[int, int, int] = (40, 50, 70)
    activation: int = 0
    dtype: str = "float"
    arch: int = 2201


def read_mutants() -> list[Mutant]:
    """The table of edits, cube_mutants.toml."""
    rows: Any = read_table("cube_mutants.toml")
    return [Mutant(name, **fields) for name, fields in rows.items()]


MUTANTS = read_mutants()


def runnable(mutant: Mutant) -> str:
    """The mutated kernel, and a function that plans and runs it."""
    m, n, k = mutant.sizes
    return (
        mutated(mutant, PARTS)
        + f"""
extern "C" __attribute__((visibility("default"))) int {mutant.name}(
    const AscendTensor* given, AscendError* error) {{
    ascend_ops::MatmulBiasActTiling tiling;
    ascend_ops::TileMatmulBiasAct({{{m}, {n}, {k}, false, false, {mutant.activation}}},
                                  sizeof({mutant.dtype}), true, 20, &tiling);
    AscendPlan plan;
    plan.core_count = tiling.cube.core_count;
    __builtin_memcpy(plan.tiling, &tiling, sizeof tiling);
    std::vector<uint8_t> workspace(ascend_ops::WorkspaceBytes(tiling.cube));
    AscendTensor tensors[] = {{given[0], given[1], given[2], given[3],
                              {{workspace.data(), workspace.size()}}}};
    const auto body = [](const AscendTensor* t, uint8_t* data) {{
        ascend_ops::MatmulBiasActTiling own;
        __builtin_memcpy(&own, data, sizeof own);
        mutant_{mutant.name}::MatmulBiasAct<{mutant.dtype}>(
            (uint8_t*)t[0].data, (uint8_t*)t[1].data, (uint8_t*)t[2].data, (uint8_t*)t[3].data,
            (uint8_t*)t[4].data, own);
    }};
    return ascend_ops::RunMixedCores("matmul", body, 4, &plan, tensors, 0, plan.core_count, error);
}}
"""
    )


@pytest.fixture(scope="module")
def mutants_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], ctypes.CDLL]:
    """Gives all mutants of a SoC family compiled into one checked library."""
    head = (
        '#include <vector>\n#include "kernel_operator.h"\n#include "runtime/cpusim_operator.h"\n'
        '#include "matmul_bias_act/matmul_bias_act_tiling.h"\n'
    )

    @cache
    def compile_all(arch: int) -> ctypes.CDLL:
        text = head + "".join(runnable(mutant) for mutant in MUTANTS if mutant.arch == arch)
        return compile_checked(text, tmp_path_factory.mktemp("cube_mutants"), arch)

    return compile_all


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_checked_build_names_the_broken_rule_of_the_cube_unit(
    mutants_of: Callable[[int], ctypes.CDLL], mutant: Mutant
) -> None:
    m, n, k = mutant.sizes
    dtype = DTYPES[C_TYPES[mutant.dtype]]
    arrays = [np.ones(shape, dtype) for shape in ((m, k), (k, n), (n,), (m, n))]
    tensors = (_Tensor * 4)(*[_Tensor(a.ctypes.data, a.nbytes) for a in arrays])
    error = _Error()
    code = mutants_of(mutant.arch)[mutant.name](tensors, ctypes.byref(error))
    text = error.text.decode()
    if not mutant.told:
        assert (code, text) == (0, "")
        expected = 1 / (1 + np.exp(-(k + 1.0))) if mutant.activation == 2 else k + 1.0
        assert np.array_equal(arrays[3], np.full((m, n), expected, dtype))
    else:
        assert re.match("matmul: " + PLACE + ".*" + re.escape(mutant.told), text), text
        assert code == 2
