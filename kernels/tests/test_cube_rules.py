"""The checked build catches each way in which a kernel of the cube unit can break its rules.

Each mutant is the real kernel of matmul_bias_act with one edit; all are compiled into one library.
"""

import ctypes
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ascend_ops.abi import DTYPES, _Error, _Tensor

KERNELS = Path(__file__).resolve().parent.parent
PARTS = (
    "common/tile_copy.h",
    "common/cube_epilogue.h",
    "common/cube_load.h",
    "common/cube_gemm.h",
    "matmul_bias_act/matmul_bias_act_kernel.h",
)
# Core, tile and place of the fault; a fault between cores names both, one of a block neither.
PLACE = r"(core \d+, tile -?\d+, (\w+\+0x[0-9a-f]+|address \S+): |core \d+ and core \d+, .*|)"
C_TYPES = {"float": 0, "half": 1}


@dataclass(frozen=True)
class Mutant:
    """One or two edits of the kernel's text, the problem to run it on, and what must be told."""

    name: str
    find: str
    replace: str
    told: str
    find_2: str = ""
    replace_2: str = ""
    sizes: tuple[int, int, int] = (40, 50, 70)
    activation: int = 0
    dtype: str = "float"


MUTANTS = [
    Mutant(name, **fields)
    for name, fields in tomllib.loads(
        (KERNELS / "tests/cube_mutants.toml").read_text(encoding="utf-8")
    ).items()
]


def mutated(mutant: Mutant) -> str:
    """The kernel's text with its edits, in a namespace of its own, and a function that runs it."""
    text = ""
    for part in PARTS:
        lines = (KERNELS / part).read_text(encoding="utf-8").splitlines()
        text += "\n".join(line for line in lines if not line.startswith("#pragma once")) + "\n"
    text = re.sub(r'#include ".*"', "", text)
    # The second first: the first edit may bring its text in once more.
    for find, replace in ((mutant.find_2, mutant.replace_2), (mutant.find, mutant.replace)):
        if find:
            assert text.count(find) == 1, f"{mutant.name}: the kernel's text has changed: {find}"
            text = text.replace(find, replace)
    text = text.replace("namespace ascend_ops {", f"namespace mutant_{mutant.name} {{")
    text = text.replace(
        f"namespace mutant_{mutant.name} {{",
        f"namespace mutant_{mutant.name} {{\nusing namespace ascend_ops;",
        1,
    )
    m, n, k = mutant.sizes
    return (
        text
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
def mutants(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All mutants compiled into one checked library."""
    folder = tmp_path_factory.mktemp("cube_mutants")
    head = (
        '#include <vector>\n#include "kernel_operator.h"\n#include "runtime/cpusim_operator.h"\n'
        '#include "matmul_bias_act/matmul_bias_act_tiling.h"\n'
    )
    source = folder / "mutants.cpp"
    source.write_text(head + "".join(mutated(mutant) for mutant in MUTANTS), encoding="utf-8")
    names = ("cpusim/checker.cpp", "cpusim/cross_core.cpp", "runtime/cpusim_operator.cpp")
    parts = [source, *[KERNELS / name for name in names]]
    include = [f"-I{KERNELS / name}" for name in (".", "cpusim/include", "runtime")]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-DCPUSIM_CHECKED=1", "-D__NPU_ARCH__=2201"]
    library = folder / "mutants.so"
    subprocess.run(["g++", *flags, *include, *map(str, parts), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_checked_build_names_the_broken_rule_of_the_cube_unit(
    mutants: ctypes.CDLL, mutant: Mutant
) -> None:
    m, n, k = mutant.sizes
    dtype = DTYPES[C_TYPES[mutant.dtype]]
    arrays = [np.ones(shape, dtype) for shape in ((m, k), (k, n), (n,), (m, n))]
    tensors = (_Tensor * 4)(*[_Tensor(a.ctypes.data, a.nbytes) for a in arrays])
    error = _Error()
    code = mutants[mutant.name](tensors, ctypes.byref(error))
    text = error.text.decode()
    if not mutant.told:
        assert (code, text) == (0, "")
        expected = 1 / (1 + np.exp(-(k + 1.0))) if mutant.activation == 2 else k + 1.0
        assert np.array_equal(arrays[3], np.full((m, n), expected, dtype))
    else:
        assert re.match("matmul: " + PLACE + ".*" + re.escape(mutant.told), text), text
        assert code == 2
