"""The checked build catches each way in which a kernel can break the hardware's rules.

Each mutant is the real sigmoid kernel with one edit. All of them are compiled into one library
and run; the message must name operator, core, tile and place, and say which rule was broken.
"""

import ctypes
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ascend_ops.abi import _Error, _Plan, _Problem, _Tensor

KERNELS = Path(__file__).resolve().parent.parent
# One full tile of 9344 elements and more a core, so that buffers are used again.
LONG = 9344 * 40 * 3


PLACES = {
    "buffer": r"core 0, tile -?\d+, UB\+0x[0-9a-f]+: ",
    "elsewhere": r"core 0, tile -?\d+, address \S+: ",
    "cores": r"core \d+ and core \d+, address 0x[0-9a-f]+: ",
}


@dataclass(frozen=True)
class Mutant:
    """One edit of the kernel's text, the length to run it on, and what must be told."""

    name: str
    find: str
    replace: str
    told: str
    length: int = LONG
    place: str = "buffer"


def read_mutants() -> list[Mutant]:
    """The table of edits, mutants.toml."""
    table = tomllib.loads((KERNELS / "tests/mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(name, **fields) for name, fields in table.items()]


MUTANTS = read_mutants()


def mutated(mutant: Mutant) -> str:
    """The kernel's text with its edit, in a namespace of its own."""
    text = ""
    for name in ("common/tile_copy.h", "sigmoid/sigmoid_kernel.h"):
        lines = (KERNELS / name).read_text(encoding="utf-8").splitlines()
        text += "\n".join(line for line in lines if not line.startswith("#pragma once"))
    assert text.count(mutant.find) == 1, f"{mutant.name}: the kernel's text has changed"
    text = re.sub(r'#include ".*"', "", text).replace(mutant.find, mutant.replace)
    text = text.replace("namespace ascend_ops {", f"namespace mutant_{mutant.name} {{")
    return (
        text
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
    folder = tmp_path_factory.mktemp("mutants")
    head = (
        '#include "kernel_operator.h"\n#include "runtime/cpusim_operator.h"\n'
        '#include "sigmoid/sigmoid_tiling.h"\nusing ascend_ops::SigmoidTiling;\n'
    )
    source = folder / "mutants.cpp"
    source.write_text(head + "".join(mutated(mutant) for mutant in MUTANTS), encoding="utf-8")
    names = ("cpusim/checker.cpp", "cpusim/cross_core.cpp", "runtime/cpusim_operator.cpp")
    parts = [source, *[KERNELS / name for name in names]]
    include = [f"-I{KERNELS / name}" for name in (".", "cpusim/include", "runtime")]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-DCPUSIM_CHECKED=1", "-D__NPU_ARCH__=2201"]
    library = folder / "mutants.so"
    command = ["g++", *flags, *include, *map(str, parts), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


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
