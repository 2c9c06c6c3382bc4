"""The checked build catches each way in which a kernel can break the hardware's rules.

Each mutant is the real sigmoid kernel with one edit. All of them are compiled into one library
and run; the message must name operator, core, tile and place, and say which rule was broken.
"""

import ctypes
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_ops.abi import _Error, _Plan, _Problem, _Tensor

from kernels.tests.mutant_library import KERNELS, Edit, compile_checked, mutated, read_table

PARTS = ("common/tile_copy.h", "sigmoid/sigmoid_kernel.h")
# One full tile of 9344 elements and more a core, so that buffers are used again.
LONG = 9344 * 40 * 3


PLACES = {
    "buffer": r"core 0, tile -?\d+, UB\+0x[0-9a-f]+: ",
    "elsewhere": r"core 0, tile -?\d+, address \S+: ",
    "cores": r"core \d+, tile -?\d+ and core \d+, tile -?\d+, address 0x[0-9a-f]+: ",
}


@dataclass(frozen=True)
class Mutant(Edit):
    """A mutant, the length to run it on, and where the fault is told to be."""

    length: int = LONG
    place: str = "buffer"


def read_mutants() -> list[Mutant]:
    """The table of edits, mutants.toml."""
    rows: Any = read_table("mutants.toml")
    return [Mutant(name, **fields) for name, fields in rows.items()]


MUTANTS = read_mutants()


def runnable(mutant: Mutant) -> str:
    """The mutated kernel, and a function that plans and runs it."""
    return (
        mutated(mutant, PARTS)
        + f"""
namespace mutant_{mutant.name} {{
using ascend_ops::SigmoidTiling;
void Body(const AscendTensor* tensors, uint8_t* tiling) {{
    SigmoidTiling data;
    __builtin_memcpy(&data, tiling, sizeof data);
    AscendC::TPipe pipe;
    SigmoidKernel<float> kernel;
    kernel.Init((uint8_t*)tensors[0].data, (uint8_t*)tensors[1].data, data, &pipe);
    kernel.Process();
}}
}}
extern "C" __attribute__((visibility("default"))) int {mutant.name}(
    int64_t length, const AscendTensor* tensors, AscendError* error) {{
    SigmoidTiling tiling;
    AscendPlan plan;
    ascend_ops::TileSigmoid(length, 4, ascend_ops::EmulatedPlatform(), &tiling);
    ascend_ops::PlanElementwise(ascend_ops::TilingStatus::kOk, tiling, "sigmoid", &plan, error);
    return ascend_ops::RunCores("sigmoid", mutant_{mutant.name}::Body, 2, &plan, tensors, 0,
                                plan.core_count, error);
}}
"""
    )


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All mutants compiled into one checked library."""
    head = (
        '#include "kernel_operator.h"\n#include "runtime/cpusim_operator.h"\n'
        '#include "sigmoid/sigmoid_tiling.h"\nusing ascend_ops::SigmoidTiling;\n'
    )
    text = head + "".join(runnable(mutant) for mutant in MUTANTS)
    return compile_checked(text, tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_checked_build_names_the_broken_rule(mutants: ctypes.CDLL, mutant: Mutant) -> None:
    x = np.ones(mutant.length, np.float32)
    y = np.empty_like(x)
    tensors = (_Tensor * 2)(*[_Tensor(a.ctypes.data, a.nbytes) for a in (x, y)])
    error = _Error()
    code = mutants[mutant.name](ctypes.c_int64(mutant.length), tensors, ctypes.byref(error))
    text = error.text.decode()
    if not mutant.told:
        assert (code, text) == (0, "")
    else:
        assert re.match("sigmoid: " + PLACES[mutant.place] + re.escape(mutant.told), text), text
        assert code == 2


def test_a_kernel_that_trusts_the_inaccurate_reciprocal_shows_it(mutants: ctypes.CDLL) -> None:
    # The vendor documents an error of 1e-4; a kernel's own tolerance is 2 ulp, 2.4e-7.
    x = np.linspace(-8, 8, LONG, dtype=np.float32)
    y = np.empty_like(x)
    tensors = (_Tensor * 2)(*[_Tensor(a.ctypes.data, a.nbytes) for a in (x, y)])
    error = _Error()
    code = mutants["reciprocal_for_div"](ctypes.c_int64(LONG), tensors, ctypes.byref(error))
    assert (code, error.text) == (0, b"")
    exact = 1 / (1 + np.exp(-x.astype(float)))
    worst = np.max(np.abs(y / exact - 1))
    assert 4e-5 < worst <= 1e-4


def test_the_python_mirror_of_the_abi_has_the_sizes_of_c(tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include <stdio.h>\n#include "ascend_abi.h"\nint main(void) { printf("%zu %zu %zu %zu",'
        " sizeof(AscendError), sizeof(AscendProblem), sizeof(AscendPlan), sizeof(AscendTensor)); }"
    )
    program = str(tmp_path / "sizes")
    command = ["gcc", f"-I{KERNELS / 'runtime'}", str(source), "-o", program]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True)
    sizes = [ctypes.sizeof(part) for part in (_Error, _Problem, _Plan, _Tensor)]
    assert [int(word) for word in printed.stdout.split()] == sizes
